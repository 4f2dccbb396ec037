"""Blocks of a layer in which tokens meet, other than plain self-attention."""
