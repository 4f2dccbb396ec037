"""Workers that a model needs, and why: signals in, a number out."""
