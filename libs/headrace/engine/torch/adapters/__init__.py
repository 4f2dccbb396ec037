"""LoRA adapters beside the weights of a decoder."""
