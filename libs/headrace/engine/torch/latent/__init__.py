"""Latent vectors through torch: what stands before and behind attention over the paged cache, and experts."""
