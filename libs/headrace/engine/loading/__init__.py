"""Loads a checkpoint into the engine that suits it."""
