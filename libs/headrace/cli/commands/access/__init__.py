"""Commands that say who may do what."""
