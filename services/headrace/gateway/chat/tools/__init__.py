"""Tools that a model may call, and the choice among them."""
