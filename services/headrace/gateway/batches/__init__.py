"""Batches: requests of a file, answered by one gateway at a time."""
