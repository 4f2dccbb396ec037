"""Reads quantized checkpoints of every common format into one canonical form."""
