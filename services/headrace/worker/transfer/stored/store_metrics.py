"""Metrics of KV blocks in the store that workers share."""

from prometheus_client import Counter, Histogram

STORE_ASKS = Counter("headrace_worker_store_asks", "Prompts about which the store was asked", ["outcome"])
STORE_SECONDS = Histogram("headrace_worker_store_seconds", "Time that prompts waited for blocks of the store")
STORE_READ_BLOCKS = Counter("headrace_worker_store_blocks_read", "KV blocks that came from the store and were used")
STORE_READ_BYTES = Counter("headrace_worker_store_bytes_read", "Bytes of KV blocks that came from the store")
STORE_WRITTEN_BLOCKS = Counter("headrace_worker_store_blocks_written", "KV blocks that were put into the store")
STORE_WRITTEN_BYTES = Counter("headrace_worker_store_bytes_written", "Bytes of KV blocks put into the store")
STORE_LOST_BLOCKS = Counter("headrace_worker_store_blocks_lost", "KV blocks that could not be put into the store")
REFUSED_STORED = Counter("headrace_worker_store_blocks_refused", "KV blocks of the store that were refused", ["reason"])
