"""Kernels in C++, and the registry that chooses among them and torch."""
