"""Hidden states of a model that a draft head reads."""
