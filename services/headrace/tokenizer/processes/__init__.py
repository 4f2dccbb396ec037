"""Processes that do the work on text, so that a costly template holds nobody up."""
