"""Decoders on the C++ kernels: each step is one call. Starts without importing torch."""
