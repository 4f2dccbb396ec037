"""Conversations: tools that may be called, the grammar of an answer, and the parts that an answer is read into."""
