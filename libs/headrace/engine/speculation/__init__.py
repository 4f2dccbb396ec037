"""Exact speculative decoding: draft tokens come from the text itself and from a draft model."""
