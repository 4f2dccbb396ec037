"""Measures what a precision costs in quality and memory."""
