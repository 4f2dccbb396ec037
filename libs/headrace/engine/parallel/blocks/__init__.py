"""KV blocks of a group, of which each rank has a part."""
