"""Families of decoders whose checkpoints have the queries of each group of heads beside its key and value."""
