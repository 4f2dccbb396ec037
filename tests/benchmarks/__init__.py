"""Measurements. They print tables and end with one JSON line; they assert nothing about speed."""
