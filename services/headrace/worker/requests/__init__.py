"""Requests on their way through a worker, and the frames that carry their tokens out."""
