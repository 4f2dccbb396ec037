"""Runs the whole platform on one machine: starts the processes, watches them, starts them again, stops them."""
