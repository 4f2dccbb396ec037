"""Simulation of a platform in virtual time: the scheduler's core and the engine's batcher are the real ones."""
