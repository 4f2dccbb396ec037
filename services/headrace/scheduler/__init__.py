"""The scheduler service: queues per model, dynamic batches, placement. Sees no text, relays no tokens."""
