"""OpenAI's API: its requests, answers and options."""
