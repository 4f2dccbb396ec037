"""Identity of one process: the certificate and key of its role, and the authority that it trusts.

The three files have the names that Kubernetes gives them in a TLS secret.
"""

import datetime
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError
from headrace.security.certificates.role import role_of

AUTHORITY_FILE = "ca.crt"
CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"
FILES = (AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE)


@dataclass(frozen=True, slots=True)
class RoleIdentity:
    """Identity in PEM, and what its certificate says."""

    role: str
    folder: Path
    authority: bytes
    certificate: bytes
    private_key: bytes
    hosts: tuple[str, ...]
    """Names and IP addresses beside that of the role."""
    expires: datetime.datetime
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal."""

    def __repr__(self) -> str:
        return f"RoleIdentity({self.role!r}, {str(self.folder)!r})"

    def remaining(self, now: datetime.datetime | None = None) -> datetime.timedelta:
        """Returns the time until the certificate expires; negative when it has."""
        return self.expires - (now or datetime.datetime.now(datetime.UTC))


def read_identity(folder: Path) -> RoleIdentity:
    """Reads the identity in a folder, be it expired or not. Raises ConfigError."""
    # Importing it takes tens of milliseconds, which a start without certificates does not need.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    try:
        authority, certificate, private_key = ((folder / name).read_bytes() for name in FILES)
    except OSError as error:
        raise ConfigError(
            f"cannot read the certificate in {folder}: {error}; make one with headrace certs create",
            param="certificates",
        ) from None
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        key = serialization.load_pem_private_key(private_key, None)
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise ConfigError(f"the certificate in {folder} cannot be used: {error}", param="certificates") from None
    if key.public_key() != parsed.public_key():
        message = f"{folder / CERTIFICATE_FILE} and {KEY_FILE} do not belong together: renew with headrace certs renew"
        raise ConfigError(message, param="certificates")
    domains = names.get_values_for_type(x509.DNSName)
    if (role := role_of(domains)) is None:
        message = f"{folder / CERTIFICATE_FILE} names no role: make one with headrace certs create"
        raise ConfigError(message, param="certificates")
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    hosts = (*(name for name in domains if role_of([name]) is None), *addresses)
    fingerprint = parsed.fingerprint(hashes.SHA256()).hex()
    expires = parsed.not_valid_after_utc
    return RoleIdentity(role, folder, authority, certificate, private_key, hosts, expires, fingerprint)


def first_name(certificate: bytes) -> str:
    """Returns a name that a PEM certificate is for, the wildcard in it replaced. Raises ConfigError."""
    # As in `read_identity`.
    from cryptography import x509

    try:
        names = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (ValueError, x509.ExtensionNotFound) as error:
        raise ConfigError(f"the certificate for clients cannot be used: {error}", param="tls_certificate") from None
    domains = names.value.get_values_for_type(x509.DNSName)
    addresses = map(str, names.value.get_values_for_type(x509.IPAddress))
    if (name := next(iter((*domains, *addresses)), None)) is None:
        raise ConfigError("the certificate for clients is for no host: it needs a SAN", param="tls_certificate")
    return name.replace("*", "any")
