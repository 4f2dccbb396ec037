"""Decoders, assembled from layers and a checkpoint."""
