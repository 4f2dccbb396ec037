"""Metrics of the store of KV blocks."""

from prometheus_client import Counter, Gauge

SHARED_BLOCKS = Gauge("headrace_cache_kv_blocks", "KV blocks in the store that workers share")
SHARED_BYTES = Gauge("headrace_cache_kv_bytes", "Bytes on disk of the KV blocks in the store")
FETCHED = Counter("headrace_cache_kv_blocks_fetched", "KV blocks that the store gave to workers")
FETCHED_BYTES = Counter("headrace_cache_kv_bytes_fetched", "Bytes of KV blocks that the store gave to workers")
STORED = Counter("headrace_cache_kv_blocks_stored", "KV blocks that workers put into the store")
EVICTED = Counter("headrace_cache_kv_blocks_evicted", "KV blocks of the store that gave way to others")
DROPPED = Counter("headrace_cache_kv_blocks_dropped", "KV blocks that were not stored", ["reason"])
