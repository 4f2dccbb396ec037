"""Models on torch: the reference for everything else, and the path for GPUs."""
