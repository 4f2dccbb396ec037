"""Metrics of KV blocks on a disk."""

from prometheus_client import Counter, Gauge

KEPT_BLOCKS = Gauge("headrace_worker_kept_blocks", "KV blocks on the disk of this worker")
WRITTEN_BLOCKS = Counter("headrace_worker_kept_blocks_written", "KV blocks that were written to the disk")
READ_BLOCKS = Counter("headrace_worker_kept_blocks_read", "KV blocks that were read from the disk and used")
LOST_BLOCKS = Counter("headrace_worker_kept_blocks_lost", "KV blocks that could not be written to the disk")
REFUSED_KEPT = Counter("headrace_worker_kept_blocks_refused", "KV blocks on the disk that were not used", ["reason"])
