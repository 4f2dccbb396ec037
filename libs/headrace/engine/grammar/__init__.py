"""Structured output: grammars compiled off the engine thread, and the tokens that they allow next."""
