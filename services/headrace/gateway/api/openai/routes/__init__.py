"""Endpoints of the API of OpenAI, and of those that other servers added to it."""
