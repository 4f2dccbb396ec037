"""Keys and values of a model as tensors of torch."""
