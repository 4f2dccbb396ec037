"""Resumption of streams: their journals, and the places in them."""
