"""Results of simulations as tables."""
