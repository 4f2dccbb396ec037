"""The model engine: turns token ids into token ids. Knows no service, no text and no network."""
