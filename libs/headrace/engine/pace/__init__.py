"""Measured times of steps: averages, and a fit by what a step computes."""
