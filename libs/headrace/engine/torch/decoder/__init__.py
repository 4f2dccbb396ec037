"""Decoders, put together from layers and a checkpoint."""
