"""The way of numbers to a device."""
