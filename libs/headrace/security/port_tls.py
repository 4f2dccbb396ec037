"""TLS of gRPC ports: mutual inside the platform, of the server alone in front of it."""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from headrace.errors import ConfigError
from headrace.security.certificates.role_identity import FILES, RoleIdentity, read_identity

PortTls: TypeAlias = grpc.ServerCredentials
Fetch = Callable[[], Any]
_log = logging.getLogger(__name__)


def mutual_tls(identity: RoleIdentity) -> PortTls:
    """Returns TLS by which both sides show certificates of the same authority. A renewed certificate is used from the
    next connection on."""
    return grpc.dynamic_ssl_server_credentials(_configuration(identity), _renewing(identity), True)


def public_tls(certificate: Path, key: Path) -> PortTls:
    """Returns TLS by which only the server shows a certificate. Raises ConfigError."""
    try:
        pair = key.read_bytes(), certificate.read_bytes()
        return grpc.ssl_server_credentials([pair])
    except OSError as error:
        message = f"the certificate {certificate} or its key cannot be used: {error}"
        raise ConfigError(message, param="tls_certificate") from None


def _configuration(identity: RoleIdentity) -> Any:
    pair = identity.private_key, identity.certificate
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=identity.authority)


def _renewing(identity: RoleIdentity) -> Fetch:
    """Returns a function that reads the files again once they have changed, and returns None while they have not. gRPC
    calls it before every handshake."""
    known = _versions(identity.folder)

    def fetch() -> Any:
        nonlocal known
        if (now := _versions(identity.folder)) == known:
            return None
        try:
            renewed = read_identity(identity.folder)
        except ConfigError as error:
            # Between the writes of key and certificate they do not fit; the next connection reads them again.
            _log.warning("the renewed certificate is not used yet", extra={"error": error.message})
            return None
        known = now
        _log.info("the certificate was renewed", extra={"expires": renewed.expires.isoformat()})
        return _configuration(renewed)

    return fetch


def _versions(folder: Path) -> tuple[int, ...]:
    """Returns when each file was changed last, in nanoseconds; 0 for one that is not there."""

    def changed(path: Path) -> int:
        with contextlib.suppress(OSError):
            return path.stat().st_mtime_ns
        return 0

    return tuple(changed(folder / name) for name in FILES)
