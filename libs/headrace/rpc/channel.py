"""Opens channels."""

import grpc

from headrace.rpc.options import CHANNEL_OPTIONS


def open_channel(address: str) -> grpc.aio.Channel:
    """A channel to `host:port`. Connects when first used, and again after every loss."""
    return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
