"""KV blocks in the store that workers share, as a worker sees it."""
