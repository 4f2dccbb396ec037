"""Way to a platform over HTTP: through which proxies, and whose certificates are trusted."""

import os
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace.errors import ConfigError
from headrace.settings.web.web_names import is_loopback

AUTHORITY_VARIABLE = "HEADRACE_CA"
"""Variable with the path of a PEM file of certificates to trust."""


def connection_options(address: str, authority: Path | None = None) -> dict[str, Any]:
    """Returns options of an HTTP client for an address. No proxy is asked for this machine, whatever the environment
    says. `authority`: PEM file of certificates to trust instead of the system's; None: that of HEADRACE_CA, if it is
    set. Raises ConfigError."""
    verify = trusting_context(address, authority)
    return {"trust_env": not _is_here(address), "verify": True if verify is None else verify}


def trusting_context(address: str, authority: Path | None = None) -> ssl.SSLContext | None:
    """Returns what checks the certificate of an address; None where the system's authorities do. On this machine it may
    be for any name: the address is only an alias there. Raises ConfigError."""
    named = authority or Path(os.environ.get(AUTHORITY_VARIABLE, ""))
    if urlsplit(address).scheme != "https" or named == Path():
        return None
    try:
        context = ssl.create_default_context(cafile=named)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot read the certificates of {named}: {error}", param="authority") from None
    context.check_hostname = not _is_here(address)
    return context


def is_untrusted(error: BaseException) -> bool:
    """Whether a connection failed because no trusted authority signed the other side's certificate."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _is_here(address: str) -> bool:
    return is_loopback((urlsplit(address).hostname or "").lower())
