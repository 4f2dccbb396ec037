"""Draft heads on the CPU kernels."""
