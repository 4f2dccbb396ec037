"""Opens channels."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import grpc

from headrace.rpc.credentialed_channel import CredentialedChannel
from headrace.rpc.member_address import split
from headrace.rpc.options import CHANNEL_OPTIONS
from headrace.security.certificates.role import name_of
from headrace.security.certificates.role_identity import RoleIdentity, first_name

Channel: TypeAlias = grpc.aio.Channel
OpenChannel: TypeAlias = Callable[[str], Channel]
"""Opens a channel to an address, `host:port` or `host:port/name`."""


def open_channel(address: str, credential: str = "", identity: RoleIdentity | None = None, role: str = "") -> Channel:
    """Opens a channel to `host:port`, or to one of several services there, `host:port/name`. Connects when first used,
    and again after every loss. Calls carry the credential and the name, if there are. With an identity the channel is
    encrypted, shows it, and trusts a server of the given role only."""
    target, member = split(address)
    if identity is None:
        channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    else:
        shown = grpc.ssl_channel_credentials(identity.authority, identity.private_key, identity.certificate)
        # The name in the certificate is that of the role, whatever machine it runs on.
        options = [*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", name_of(role))]
        channel = grpc.aio.secure_channel(target, shown, options=options)
    return CredentialedChannel(channel, credential, member) if credential or member else channel


def open_public_channel(address: str, certificate: Path | None) -> Channel:
    """Opens a channel to a port of this process for callers from outside, whose certificate it trusts as it is. None:
    plain text. Raises ConfigError."""
    if certificate is None:
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    chain = certificate.read_bytes()
    options = [*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", first_name(chain))]
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(chain), options=options)
