"""Models on torch, on any device: the reference for everything else. Takes a backend, and knows no GPU kernels."""
