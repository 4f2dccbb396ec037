"""Requests that pass through a proxy, part by part."""
