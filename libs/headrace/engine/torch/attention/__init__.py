"""Attention over a paged KV cache, and over whole inputs."""
