"""Families of decoders, and how each states its facts in config.json."""
