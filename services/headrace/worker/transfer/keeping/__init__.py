"""KV blocks are written to places that outlive memory, behind the engine."""
