"""Hosts, origins, and ways over HTTP."""
