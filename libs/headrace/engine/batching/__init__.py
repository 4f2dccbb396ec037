"""Continuous batching: which tokens of which sequences the next step computes, and in which KV blocks. No tensors."""
