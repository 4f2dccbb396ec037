"""Predictions from what has ended."""
