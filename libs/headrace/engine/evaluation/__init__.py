"""Quality of a model: perplexity, and distance from a reference."""
