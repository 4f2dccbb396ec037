"""Exactly-once delivery of tokens, over lost workers."""
