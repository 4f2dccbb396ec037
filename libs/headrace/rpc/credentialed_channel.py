"""Channel whose calls carry the platform's credential, and the name of the service that is meant."""

from collections.abc import Callable
from typing import Any

import grpc

from headrace.rpc import member_address
from headrace.security.credential import KEY, bearer


class CredentialedChannel(grpc.aio.Channel):
    """Wraps a channel and adds both to the metadata of every call."""

    def __init__(self, channel: grpc.aio.Channel, credential: str, member: str = "") -> None:
        """`member`: name of one of several services behind one port. Neither is added where it is empty."""
        self._channel = channel
        self._pairs = [(KEY, bearer(credential))] if credential else []
        if member:
            self._pairs.append((member_address.KEY, member))

    async def __aenter__(self) -> "CredentialedChannel":
        await self._channel.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._channel.__aexit__(*error)

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    def unary_unary(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.unary_unary(*method, **options))

    def unary_stream(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.unary_stream(*method, **options))

    def stream_unary(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.stream_unary(*method, **options))

    def stream_stream(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.stream_stream(*method, **options))

    def _with_credential(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_with_credential(*arguments: Any, metadata: Any = (), **options: Any) -> Any:
            return call(*arguments, metadata=(*self._pairs, *(metadata or ())), **options)

        return call_with_credential
