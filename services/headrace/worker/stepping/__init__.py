"""Thread that runs the engine, and those who watch it."""
