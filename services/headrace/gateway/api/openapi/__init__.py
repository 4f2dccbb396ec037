"""Description of the REST API, made from what it checks requests with."""
