"""Batches and their files: the endpoints."""
