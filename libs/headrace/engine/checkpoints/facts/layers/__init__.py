"""Facts of decoders whose layers differ, or read more than the hidden states of the layer before."""
