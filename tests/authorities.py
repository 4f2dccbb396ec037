"""Certificates of the system's authorities, read once by each process of the tests. An HTTP client of a moment, such as
`httpx2.get` makes, reads them anew, which takes thirty milliseconds of a processor for a request of two."""

import os
import ssl
from functools import cache

import httpcore2

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name other authorities."""
_read = httpcore2.default_ssl_context


def _kept(*, _trust_env: bool = True) -> ssl.SSLContext:
    return _read_once(_trust_env, *(os.environ.get(name) for name in VARIABLES))


@cache
def _read_once(trust_env: bool, *_: str | None) -> ssl.SSLContext:
    return _read(_trust_env=trust_env)


httpcore2.default_ssl_context = _kept
