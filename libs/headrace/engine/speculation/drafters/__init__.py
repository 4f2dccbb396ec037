"""Models that draft tokens for a larger one."""
