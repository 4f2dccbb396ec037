"""Logs and traces, the same in every service, and the metadata by which they follow a request across calls."""
