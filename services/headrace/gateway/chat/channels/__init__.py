"""Answers in channels, as gpt-oss writes them: the harmony format of OpenAI."""
