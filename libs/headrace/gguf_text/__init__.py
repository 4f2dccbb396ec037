"""The tokenizer inside a GGUF file."""
