"""KV blocks of prompts are fetched before their requests begin, from places behind one Protocol."""
