"""Encoders, assembled from layers and a checkpoint."""
