"""Packs canonical weights into the form that the CPU kernels multiply."""
