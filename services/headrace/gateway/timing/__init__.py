"""Time of each request by stage, and a memory of the last requests."""
