"""Checkpoints on disk, read into facts about a model and its canonical weights."""
