"""Status of a worker: what it tells schedulers, gateways and caches."""
