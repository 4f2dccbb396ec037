"""Forms and queries: what clients send besides JSON."""
