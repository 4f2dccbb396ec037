"""Architectures, by their Hugging Face names."""
