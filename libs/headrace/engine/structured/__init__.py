"""Structured output: which tokens a grammar allows next. Knows text and token ids, no model and no batch."""
