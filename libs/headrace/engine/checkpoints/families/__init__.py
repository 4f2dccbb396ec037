"""Architectures by the names that Hugging Face gives them."""
