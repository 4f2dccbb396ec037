"""Connections that anyio leaves open."""

import gc
import warnings


def drop_half_made_connections() -> None:
    """Collects the sockets of tasks that were cancelled just as they had connected, which anyio leaves open. A later
    test would be blamed for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
