"""Choice of an endpoint: a shell around the scheduler's core."""
