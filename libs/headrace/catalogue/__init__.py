"""Models that Headrace knows by a short name, with their shapes and where their quantized weights come from."""
