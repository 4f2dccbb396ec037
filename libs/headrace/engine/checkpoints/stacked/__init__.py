"""Experts of checkpoints that stack those of a layer in one tensor, read one by one."""
