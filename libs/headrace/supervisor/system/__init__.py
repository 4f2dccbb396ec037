"""Processes as the operating system knows them."""
