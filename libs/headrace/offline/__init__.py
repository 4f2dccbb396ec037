"""Offline work on models. Above the engine, below the command line."""
