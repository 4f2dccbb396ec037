"""Names of KV blocks, which the engine, the scheduler and the cache share."""
