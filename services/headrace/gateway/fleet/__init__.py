"""Workers and schedulers as a gateway sees them."""
