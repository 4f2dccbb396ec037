"""One step between batcher and model: what a runner is given, what it gives back, and what chooses tokens from it."""
