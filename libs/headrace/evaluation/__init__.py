"""Measures the quality and memory of each precision."""
