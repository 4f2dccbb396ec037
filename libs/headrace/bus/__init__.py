"""News between services: published to all subscribers, numbered, never waited for. Also the registry and leases."""
