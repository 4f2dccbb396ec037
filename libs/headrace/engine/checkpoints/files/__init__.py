"""Checkpoint files that are read before all others."""
