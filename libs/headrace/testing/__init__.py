"""Helpers for tests of Headrace and of software built on it. May not import services."""
