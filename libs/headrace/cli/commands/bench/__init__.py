"""Commands that load a platform and compare what came of it."""
