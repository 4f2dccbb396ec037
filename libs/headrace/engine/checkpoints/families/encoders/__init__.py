"""Families of encoders: how each says its facts in config.json, and names its tensors."""
