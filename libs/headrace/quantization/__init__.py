"""Quantizes checkpoints: rounding, GPTQ and AWQ."""
