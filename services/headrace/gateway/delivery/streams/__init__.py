"""Asynchronous streams, joined and merged."""
