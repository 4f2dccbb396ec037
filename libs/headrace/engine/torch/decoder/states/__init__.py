"""States of sequences as torch tensors, and the layers that keep them."""
