"""Plays a trace against the scheduler."""
