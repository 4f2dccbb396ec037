"""Responses in the background: they run on after their client has left, and other gateways continue them."""
