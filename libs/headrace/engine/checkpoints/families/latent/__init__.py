"""Families whose keys and values are products of a latent vector."""
