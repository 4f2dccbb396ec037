"""Families of encoders: how each states its facts in config.json and names its tensors."""
