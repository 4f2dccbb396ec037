"""Work on models apart from serving them. Above the engine, below the command line."""
