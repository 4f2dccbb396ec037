"""Measurements of single parts. They print what they found next to what is aimed at, and assert nothing."""
