"""The tokenizer service: chat templates and encoding. Knows nothing about workers."""
