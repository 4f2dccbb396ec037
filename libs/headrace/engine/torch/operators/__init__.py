"""Products, norms and sampling, from the fastest library available."""
