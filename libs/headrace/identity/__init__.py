"""Ids of requests, built and parsed in one place."""
