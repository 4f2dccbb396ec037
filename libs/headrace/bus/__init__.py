"""News between services: published to whoever listens, numbered, never waited for. Also the registry and leases."""
