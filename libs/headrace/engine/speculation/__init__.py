"""Exact speculative decoding: draft tokens from the text itself and from a draft model."""
