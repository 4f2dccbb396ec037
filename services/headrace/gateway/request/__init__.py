"""A request from accept to its one outcome, without HTTP and without OpenAI."""
