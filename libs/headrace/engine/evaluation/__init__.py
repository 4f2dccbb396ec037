"""How good a model is: perplexity, and how far it is from a reference."""
