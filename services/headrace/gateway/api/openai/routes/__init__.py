"""Endpoints of the API of OpenAI, and ones that other servers added to it."""
