"""Text to tokens and back: templates, vocabularies, pieces."""
