"""The cache service: remembers responses and where KV blocks are. Decides nothing."""
