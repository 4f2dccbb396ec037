"""Anthropic's Messages API: requests, answers, events and errors."""
