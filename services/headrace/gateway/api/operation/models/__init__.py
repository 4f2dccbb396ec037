"""Models that are loaded, unloaded and named while the platform runs."""
