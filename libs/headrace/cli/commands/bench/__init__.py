"""Commands that load a platform and compare the results."""
