"""Changes of what a running platform serves."""
