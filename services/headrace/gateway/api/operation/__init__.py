"""Endpoints for operators: health, metrics, requests and usage."""
