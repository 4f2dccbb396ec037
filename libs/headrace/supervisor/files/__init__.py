"""Files of a local platform: models that were pulled, and logs."""
