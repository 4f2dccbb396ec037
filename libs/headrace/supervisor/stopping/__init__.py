"""Stop of a platform from another process."""
