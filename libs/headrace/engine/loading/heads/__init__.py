"""Loading of draft heads."""
