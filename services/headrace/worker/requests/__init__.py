"""Requests that a worker runs, and the frames that carry their tokens to gateways."""
