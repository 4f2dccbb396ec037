"""Tensors and products of a decoder, by their names in Hugging Face checkpoints."""
