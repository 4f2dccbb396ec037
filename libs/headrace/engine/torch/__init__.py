"""Models on torch: the oracle for everything else, and what runs on GPUs."""
