"""HTTP of commands that ask a running platform."""

import contextlib
import re
from collections.abc import Iterator

import httpx2

from headrace.errors import Unavailable
from headrace.settings.web.connection_options import AUTHORITY_VARIABLE, connection_options, is_untrusted

_REASON = re.compile(r"certificate verify failed: (.+?)\.? \(_ssl")
"""Reason that the TLS library gives."""


def get(url: str, headers: dict[str, str], timeout: float) -> httpx2.Response:
    """Returns the answer of a platform. Raises Unavailable where none answers."""
    with reaching(url):
        return httpx2.get(url, headers=headers, timeout=timeout, **connection_options(url))


@contextlib.contextmanager
def reaching(url: str) -> Iterator[None]:
    """Opens a block in which a platform is asked. Raises Unavailable with the reason that it cannot be reached."""
    address = url.partition("/v1")[0].partition("/headrace/")[0]
    try:
        yield
    except httpx2.TransportError as error:
        if is_untrusted(error):
            raise Unavailable(_untrusted(address, error)) from None
        reason = f" ({error})" if isinstance(error, httpx2.TimeoutException) else ""
        raise Unavailable(f"no platform answers at {address}{reason}. Start one with: headrace up") from None


def _untrusted(address: str, error: Exception) -> str:
    """Says why the certificate of an address is refused: of an authority that is not known, expired, or for another
    name."""
    reason = _REASON.search(str(error))
    if reason and "self-signed" not in reason[1] and "issuer certificate" not in reason[1]:
        return f"the certificate of {address} is not accepted: {reason[1]}"
    return (
        f"the certificate of {address} is not trusted: name its authority, a PEM file, with --ca or in "
        f"{AUTHORITY_VARIABLE}"
    )
