"""KV blocks of an engine: who has them, how they are found, and how they come from another engine."""
