"""Changes of a running platform."""
