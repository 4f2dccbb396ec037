"""OpenAI's Responses API: requests, objects and events."""
