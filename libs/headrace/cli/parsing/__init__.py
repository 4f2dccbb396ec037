"""Command lines: their help, and what is wrong with them."""
