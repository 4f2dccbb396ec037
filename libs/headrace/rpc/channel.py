"""Opens channels."""

from collections.abc import Callable
from typing import TypeAlias

import grpc

from headrace.rpc.credentialed_channel import CredentialedChannel
from headrace.rpc.options import CHANNEL_OPTIONS

Channel: TypeAlias = grpc.aio.Channel
OpenChannel: TypeAlias = Callable[[str], Channel]
"""Opens a channel to an address, `host:port`."""


def open_channel(address: str, credential: str = "") -> Channel:
    """Opens a channel to `host:port`. Connects when first used, and again after every loss. Calls carry the credential,
    if there is one."""
    channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    return CredentialedChannel(channel, credential) if credential else channel
