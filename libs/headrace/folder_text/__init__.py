"""The tokenizer of a Hugging Face folder, and what its other files say of tokens."""
