"""Checkpoints of draft heads."""
