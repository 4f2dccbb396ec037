"""Rotary position embeddings: frequencies, their scalings, and angles."""
