"""Nouns of the platform that need no transport: ids, deadlines, conversations, changes of KV blocks."""
