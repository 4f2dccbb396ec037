"""The header of a GGUF file, and the tokenizer inside it."""
