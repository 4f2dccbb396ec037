"""Names of requests: how they are made and taken apart, in one place."""
