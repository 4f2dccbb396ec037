"""Kernels for GPUs on a real card: their tests, and their times beside those of others."""
