"""Quantizes checkpoints with third-party packages, each in its own environment."""
