"""Kernels that multiply quantized weights."""
