"""Blocks of decoders whose layers differ: what stands around attention and the feed-forward block."""
