"""The CPU kernels: one shared library with a plain C interface, which holds the GIL of nobody."""
