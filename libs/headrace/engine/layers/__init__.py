"""The pieces that decoders are made of: plain callables over tensors."""
