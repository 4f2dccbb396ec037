"""Certificates of a local platform: which process gets which, and the supervisor's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.rpc.channel import Channel, open_channel
from headrace.security.certificates.expiry import check_expiry
from headrace.security.certificates.role import NATS, OPERATOR, ROLES
from headrace.security.certificates.role_identity import RoleIdentity, read_identity
from headrace.security.nats_login import NatsLogin

if TYPE_CHECKING:
    from headrace.security.certificates.certificate_folder import CertificateFolder

KEY = "certificates"
"""Entry of a platform's description that names the folder."""


class PlatformCertificates:
    """Hands out the folders of roles. Without a folder, all is plain text."""

    def __init__(self, path: Path | None) -> None:
        """Raises ConfigError for a folder that lacks certificates, or in which one has expired."""
        self._folder = None if path is None else _folder(path)
        self._operator: RoleIdentity | None = None
        for identity in () if self._folder is None else self._folder.list_identities():
            check_expiry(identity)
            self._operator = identity if identity.role == OPERATOR else self._operator

    @property
    def role_folders(self) -> dict[str, Path]:
        """Folder of each role's certificate; empty in plain text."""
        return {} if self._folder is None else {role: self._folder.role_folder(role) for role in ROLES}

    @property
    def nats_folder(self) -> Path | None:
        """Folder of the NATS server's certificate."""
        return None if self._folder is None else self._folder.role_folder(NATS)

    @property
    def nats_login(self) -> NatsLogin | None:
        """Login of the supervisor at NATS."""
        return None if self._operator is None else NatsLogin(self._operator)

    def open_channel(self, address: str, kind: str, credential: str = "") -> Channel:
        """Opens a channel to a service of a kind, as an operator. Without the credential of the platform it serves to
        ask for health alone."""
        return open_channel(address, credential, self._operator, kind)

    def described(self) -> dict[str, str]:
        """Returns the entry of the platform's description."""
        return {} if self._folder is None else {KEY: str(self._folder.path)}


def operator_identity(folder: Path | None, described: Mapping[str, str]) -> RoleIdentity | None:
    """Returns the operator's identity in a folder, else at the platform of a description, or None if that uses no
    certificates. Raises ConfigError."""
    path = folder or (Path(described[KEY]) if KEY in described else None)
    return None if path is None else read_identity(_folder(path).role_folder(OPERATOR))


def _folder(path: Path) -> "CertificateFolder":
    # Importing it takes tens of milliseconds, which a platform in plain text does not need.
    from headrace.security.certificates.certificate_folder import CertificateFolder

    return CertificateFolder(path)
