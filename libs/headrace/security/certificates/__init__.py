"""Certificates of a platform: its own authority, and one certificate for each role."""
