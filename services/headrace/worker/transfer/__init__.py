"""KV blocks that travel between workers: a prompt is computed on one and continued on another."""
