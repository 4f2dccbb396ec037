"""Guesses the next tokens, so that one step can confirm several. Guesses never change what is generated."""
