"""Several models in one process: which of them is on the device, which sleeps, and what moves next."""
