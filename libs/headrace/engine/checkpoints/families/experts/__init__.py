"""Decoders with mixtures of experts that came after Mixtral."""
