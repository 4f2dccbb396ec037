"""Counters of KV blocks that travel."""

from prometheus_client import Counter

SENT_BLOCKS = Counter("headrace_worker_blocks_sent", "KV blocks sent to other workers")
SENT_BYTES = Counter("headrace_worker_block_sent_bytes", "Bytes of KV blocks sent to other workers")
RECEIVED_BLOCKS = Counter("headrace_worker_blocks_received", "KV blocks received from other workers and used")
RECEIVED_BYTES = Counter("headrace_worker_block_received_bytes", "Bytes of KV blocks received from other workers")
REFUSED_BLOCKS = Counter("headrace_worker_blocks_refused", "KV blocks received that were damaged, or others")
RECOMPUTED_BLOCKS = Counter("headrace_worker_blocks_recomputed", "KV blocks that were asked for and did not arrive")
RESUMED_TRANSFERS = Counter("headrace_worker_transfers_resumed", "Transfers of KV blocks that went on after a cut")
