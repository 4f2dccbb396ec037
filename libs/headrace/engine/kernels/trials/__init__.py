"""Small inputs and models on which the kernels are tried before use."""
