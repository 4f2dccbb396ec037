"""Random requests, made from the description of the API."""
