"""Weights in the layout the kernels read, packed and kept on disk for the next start."""
