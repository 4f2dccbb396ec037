"""Tokens to text."""
