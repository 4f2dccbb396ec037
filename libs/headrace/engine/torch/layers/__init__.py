"""Layers of networks."""
