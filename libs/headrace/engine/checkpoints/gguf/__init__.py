"""llama.cpp's GGUF files."""
