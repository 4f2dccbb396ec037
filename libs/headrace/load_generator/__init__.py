"""Clients that load a platform and report what they measured."""
