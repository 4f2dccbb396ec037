"""API keys and usage: the files that commands write and gateways read, and the other way round."""
