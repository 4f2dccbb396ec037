"""Small inputs on which the kernels of two instruction sets are compared, and what they compute from them."""
