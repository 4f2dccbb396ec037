"""Adapters beside packed weights, as the kernels read them."""
