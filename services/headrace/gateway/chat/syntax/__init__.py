"""Syntaxes in which models write calls of tools."""
