"""Predictions of where a model fits and how fast it runs, from its shape and a device's peak rates alone."""
