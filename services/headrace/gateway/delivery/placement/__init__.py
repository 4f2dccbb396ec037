"""Places on workers: from a scheduler that answers, or of the gateway's own choice."""
