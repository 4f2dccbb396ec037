"""Status of a worker, for schedulers, gateways and caches."""
