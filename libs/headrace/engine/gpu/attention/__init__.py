"""Attention through the kernels for GPUs, and the memory of its keys and values."""
