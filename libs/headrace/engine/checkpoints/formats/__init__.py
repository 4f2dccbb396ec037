"""Quantized formats on the Hugging Face Hub: AWQ, GPTQ, compressed-tensors and FP8."""
