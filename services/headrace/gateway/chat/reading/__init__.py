"""Reading of an answer: reasoning, content and calls, as they arrive."""
