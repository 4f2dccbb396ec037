"""Streams of answers, as they arrive."""
