"""Matrices in the form that all formats are read into."""
