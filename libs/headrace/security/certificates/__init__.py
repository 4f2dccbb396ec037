"""Certificates of a platform: an authority of its own, and one certificate for each role."""
