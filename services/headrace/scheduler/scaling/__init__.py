"""Demand for workers, as it is shown to whatever starts and stops them."""
