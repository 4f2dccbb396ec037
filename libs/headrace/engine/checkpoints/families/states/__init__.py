"""Families in which some layers keep a state instead of keys and values."""
