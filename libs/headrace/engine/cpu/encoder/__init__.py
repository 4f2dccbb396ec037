"""Encoders on the fused kernels: a batch is one call. Starts without torch."""
