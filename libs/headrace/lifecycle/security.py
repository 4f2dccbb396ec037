"""Security of a service's connections, from its settings: who it is, whom it calls, and who may call it."""

from functools import partial
from urllib.parse import urlsplit

from headrace.errors import ConfigError
from headrace.lifecycle.service import Service
from headrace.lifecycle.settings import ServiceSettings
from headrace.rpc.channel import Channel, OpenChannel, open_channel, open_public_channel
from headrace.rpc.server import ServerSecurity
from headrace.security.certificates.expiry import note_expiry
from headrace.security.certificates.role_identity import RoleIdentity, read_identity
from headrace.security.port_tls import mutual_tls, public_tls
from headrace.settings.secret_file import read_secret


def identity_of(settings: ServiceSettings) -> RoleIdentity | None:
    """Returns the identity of a service, or None if it has no certificate. Raises ConfigError for one that cannot be
    used."""
    return None if settings.certificates is None else read_identity(settings.certificates)


def credential_of(settings: ServiceSettings) -> str:
    """Returns the secret that the services of a platform share; empty if there is none. Raises ConfigError."""
    if settings.credential_file is None:
        return settings.credential
    if settings.credential:
        raise ConfigError("credential and credential_file are both set: set one of them", param="credential_file")
    return read_secret(settings.credential_file, "credential_file")


def nats_token_of(settings: ServiceSettings) -> str:
    """Returns the token that NATS gets beside what its URL says; empty if there is none. Raises ConfigError."""
    has_own = urlsplit(settings.nats_url).username is not None
    return "" if settings.credential_file is None or has_own else credential_of(settings)


def check_identity(settings: ServiceSettings) -> None:
    """Warns of a certificate that expires soon. Raises ConfigError for one that has expired, or cannot be used."""
    if (identity := identity_of(settings)) is not None:
        note_expiry(identity)


def channels_to(role: str, settings: ServiceSettings) -> OpenChannel:
    """Returns what opens channels to services of a role. Raises ConfigError."""
    return partial(open_channel, credential=credential_of(settings), identity=identity_of(settings), role=role)


def security_of(settings: ServiceSettings, service: Service) -> ServerSecurity:
    """Returns the TLS of a service's ports. Raises ConfigError."""
    identity = identity_of(settings)
    return ServerSecurity(
        mutual=None if identity is None else mutual_tls(identity),
        public=None if service.tls_files is None else public_tls(*service.tls_files),
    )


def own_channel(settings: ServiceSettings, service: Service, address: str) -> Channel:
    """Opens a channel on which a service calls itself, as its callers do."""
    identity = identity_of(settings)
    is_outside = service.is_public and not settings.probe_address
    if is_outside:
        return open_public_channel(address, service.tls_files and service.tls_files[0])
    return open_channel(address, identity=identity, role="" if identity is None else identity.role)
