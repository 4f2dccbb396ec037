"""Recurrences and convolutions, which move the states of sequences behind the tokens of a step."""
