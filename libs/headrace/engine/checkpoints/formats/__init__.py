"""Quantized formats of the hub: AWQ, GPTQ and compressed-tensors."""
