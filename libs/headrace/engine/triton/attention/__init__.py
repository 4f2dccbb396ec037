"""Kernels that write to a paged KV cache and attend over it."""
