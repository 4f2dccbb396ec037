"""Keys and values of a model as torch tensors."""
