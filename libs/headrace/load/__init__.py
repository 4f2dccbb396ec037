"""Measures a running platform as a client sees it."""
