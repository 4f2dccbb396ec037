"""Quantized formats on the Hugging Face Hub: AWQ, GPTQ and compressed-tensors."""
