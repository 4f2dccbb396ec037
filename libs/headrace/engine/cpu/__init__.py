"""Decoders on the C++ kernels: a step is one call. Starts without torch."""
