"""TLS of gRPC ports: mutual inside the platform, of the server alone in front of it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from headrace.errors import ConfigError
from headrace.security.certificates.role_identity import FILES, RoleIdentity, read_identity
from headrace.security.file_versions import file_versions
from headrace.security.public_pair import PublicPair

PortTls: TypeAlias = grpc.ServerCredentials
Fetch = Callable[[], Any]
_log = logging.getLogger(__name__)


def mutual_tls(identity: RoleIdentity) -> PortTls:
    """Returns TLS by which both sides show certificates of the same authority. A renewed certificate is used from the
    next connection on."""
    return grpc.dynamic_ssl_server_credentials(_configuration(identity), _renewing(identity), True)


def public_tls(certificate: Path, key: Path) -> PortTls:
    """Returns TLS by which only the server shows a certificate. A renewed one is used from the next connection on.
    Raises ConfigError."""
    pair = PublicPair(certificate, key)

    def fetch() -> Any:
        return _public_configuration(pair) if pair.renewed() else None

    return grpc.dynamic_ssl_server_credentials(_public_configuration(pair), fetch, False)


def _public_configuration(pair: PublicPair) -> Any:
    return grpc.ssl_server_certificate_configuration([(pair.key.read_bytes(), pair.certificate.read_bytes())])


def _configuration(identity: RoleIdentity) -> Any:
    pair = identity.private_key, identity.certificate
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=identity.authority)


def _renewing(identity: RoleIdentity) -> Fetch:
    """Returns a function that reads the files again once they have changed, and returns None while they have not. gRPC
    calls it before every handshake."""
    known = refused = file_versions(identity.folder / name for name in FILES)

    def fetch() -> Any:
        nonlocal known, refused
        if (now := file_versions(identity.folder / name for name in FILES)) in (known, refused):
            return None
        try:
            renewed = read_identity(identity.folder)
        except ConfigError as error:
            # Between the writes of key and certificate they do not fit; they are read again once they have changed.
            _log.warning("the renewed certificate is not used yet", extra={"error": error.message})
            refused = now
            return None
        known = now
        _log.info("the certificate was renewed", extra={"expires": renewed.expires.isoformat()})
        return _configuration(renewed)

    return fetch
