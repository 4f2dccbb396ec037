"""Inboxes in which the tokens of attempts arrive."""
