"""Devices: which one is current in a thread, and the way of numbers to it."""
