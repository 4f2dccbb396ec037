"""The decoder architectures."""
