"""Families of decoders: how each says its facts in config.json."""
