"""Quantizes checkpoints with the packages of others, each in an environment of its own."""
