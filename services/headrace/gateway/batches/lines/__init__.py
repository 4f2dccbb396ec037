"""The lines of a batch: read, sent through the gateway, and written with their answers."""
