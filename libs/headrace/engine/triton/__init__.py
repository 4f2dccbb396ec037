"""Kernels for GPUs in Triton, each with its launcher. They take torch's tensors and know no model."""
