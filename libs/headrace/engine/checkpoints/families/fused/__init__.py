"""Families of decoders that the fused kernels compute: Llama's blocks with other numbers, names or positions."""
