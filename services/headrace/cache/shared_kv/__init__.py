"""The store of KV blocks that workers share: the last tier, after memory, disk and other workers."""
