"""Products and norms, from the fastest library available."""
