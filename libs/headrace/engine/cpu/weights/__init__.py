"""Weights as the kernels read them, packed and kept on disk for the next start."""
