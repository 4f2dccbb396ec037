"""Way from a command to a platform: addresses, keys, HTTP."""
