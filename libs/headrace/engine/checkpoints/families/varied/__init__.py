"""Families whose layers have heads of several sizes, or share keys and values."""
