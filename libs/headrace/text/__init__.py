"""Tokenizers of models whose files have none in the form that the tokenizers package reads."""
