"""Endpoints of a pool: which there are, and what each reports of its load."""
