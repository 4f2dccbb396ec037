"""Parts of a model: which process has which."""
