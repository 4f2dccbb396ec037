"""Opens channels."""

import grpc

from headrace.rpc.credentialed_channel import CredentialedChannel
from headrace.rpc.options import CHANNEL_OPTIONS


def open_channel(address: str, credential: str = "") -> grpc.aio.Channel:
    """A channel to `host:port`. Connects when first used, and again after every loss. Calls carry the credential, if
    there is one."""
    channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    return CredentialedChannel(channel, credential) if credential else channel
