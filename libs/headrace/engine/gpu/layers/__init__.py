"""Layers of a decoder in as few launches as there are results that others must read."""
