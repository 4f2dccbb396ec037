"""vLLM's engine behind the Protocol of ours: for models, devices and parallelism that it has and we have not."""
