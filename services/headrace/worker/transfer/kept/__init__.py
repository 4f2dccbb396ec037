"""KV blocks on a disk: beyond memory, and beyond the life of a worker."""
