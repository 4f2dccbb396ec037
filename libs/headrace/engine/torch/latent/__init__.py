"""Latent attention through torch: what stands before and behind attention over the paged cache."""
