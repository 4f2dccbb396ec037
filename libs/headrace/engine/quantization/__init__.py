"""Reads quantised checkpoints of every common format into one canonical form."""
