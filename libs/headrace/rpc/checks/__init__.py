"""Checks of what others send before it is used."""
