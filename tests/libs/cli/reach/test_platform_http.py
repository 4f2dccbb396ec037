"""Errors say why a platform cannot be reached."""

import ssl

import httpx2
import pytest

from headrace.cli.reach.platform_http import reaching
from headrace.errors import Unavailable


def test_a_certificate_that_is_not_trusted_is_no_absent_platform() -> None:
    error = httpx2.ConnectError("failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    untrusted = pytest.raises(Unavailable, match=r"certificate of https://a:1 is not trusted.*HEADRACE_CA")
    with untrusted, reaching("https://a:1/v1/models"):
        raise error


def test_an_absent_platform_is_told() -> None:
    absent = pytest.raises(Unavailable, match=r"no platform answers at http://a:1\. Start one")
    with absent, reaching("http://a:1/v1/models"):
        raise httpx2.ConnectError("refused")


def test_a_certificate_that_is_refused_for_another_reason_is_told_with_it() -> None:
    text = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)"
    expired = pytest.raises(Unavailable, match=r"https://a:1 is not accepted: certificate has expired$")
    with expired, reaching("https://a:1/v1/models"):
        raise httpx2.ConnectError(text)
