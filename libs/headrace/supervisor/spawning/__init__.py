"""Starts processes: programs, or services out of a fork server that has imported them already."""
