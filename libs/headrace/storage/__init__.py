"""Atomic writes, and files that only their owner can read."""
