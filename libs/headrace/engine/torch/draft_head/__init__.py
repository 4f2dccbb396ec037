"""Draft heads on torch."""
