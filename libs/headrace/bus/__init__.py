"""Facts between services: published to whoever listens, numbered, never waited for."""
