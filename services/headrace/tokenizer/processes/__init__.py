"""Processes that work on texts, so that a costly template delays no other request."""
