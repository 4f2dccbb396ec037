"""`headrace top`."""
