"""Reads model folders: configuration and weights."""
