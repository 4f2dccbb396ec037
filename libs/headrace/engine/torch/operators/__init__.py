"""Products, norms and sampling, by the library that computes them best here."""
