"""Folder of a platform's certificates: one folder for the authority, and one for each role."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.errors import ConfigError, InvalidRequest
from headrace.security.certificates.authority import Authority, SignedPair, new_authority
from headrace.security.certificates.role import DOMAIN, ROLES
from headrace.security.certificates.role_identity import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    RoleIdentity,
    read_identity,
)
from headrace.storage.whole_file import write_whole

AUTHORITY_FOLDER = "authority"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
DEFAULT_DAYS = 365
MAX_DAYS = 3650
PRIVATE, PUBLIC = 0o600, 0o644


class CertificateFolder:
    """Makes, renews and lists certificates. A role's folder is all that its machine needs."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    def create(self, hosts: Sequence[str] = (), days: int = DEFAULT_DAYS) -> list[RoleIdentity]:
        """Makes an authority and a certificate for each role. Without hosts they are for this machine, and for the
        service of that name in docker-compose.yml. Raises ConfigError, and InvalidRequest where there is an authority
        already."""
        _check(hosts, days)
        if (self.path / AUTHORITY_FOLDER / KEY_FILE).exists():
            raise InvalidRequest(
                f"{self.path} has an authority already: renew with headrace certs renew, or name another folder"
            )
        pair = new_authority()
        issued = {role: Authority(pair).issue(role, hosts or (*LOOPBACK, role), days) for role in ROLES}
        _write_pair(self.path / AUTHORITY_FOLDER, pair, pair.certificate)
        return self._write_roles(issued, pair.certificate)

    def renew(self, hosts: Sequence[str] = (), days: int = DEFAULT_DAYS) -> list[RoleIdentity]:
        """Makes a new certificate and key for each role, by the same authority, so that both are trusted while
        processes change from one to the other. Without hosts, those of before stay. Raises
        ConfigError and InvalidRequest."""
        _check(hosts, days)
        pair = self._read_authority()
        authority = Authority(pair)
        known = {role: self._known_hosts(role) for role in ROLES}
        issued = {role: authority.issue(role, hosts or known[role], days) for role in ROLES}
        return self._write_roles(issued, pair.certificate)

    def list_identities(self) -> list[RoleIdentity]:
        """Reads the certificates of all roles, expired ones too. Raises ConfigError."""
        return [read_identity(self.role_folder(role)) for role in ROLES]

    def role_folder(self, role: str) -> Path:
        """Returns the folder of a role."""
        return self.path / role

    def _known_hosts(self, role: str) -> Sequence[str]:
        with contextlib.suppress(ConfigError):
            return read_identity(self.role_folder(role)).hosts
        return (*LOOPBACK, role)

    def _read_authority(self) -> SignedPair:
        folder = self.path / AUTHORITY_FOLDER
        try:
            return SignedPair((folder / CERTIFICATE_FILE).read_bytes(), (folder / KEY_FILE).read_bytes())
        except OSError as error:
            raise ConfigError(
                f"cannot read the authority in {folder}: {error}; make one with headrace certs create", param="folder"
            ) from None

    def _write_roles(self, issued: Mapping[str, SignedPair], authority: bytes) -> list[RoleIdentity]:
        for role, pair in issued.items():
            _write_pair(self.role_folder(role), pair, authority)
        return self.list_identities()


def _write_pair(folder: Path, pair: SignedPair, authority: bytes) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content, mode in (
            (AUTHORITY_FILE, authority, PUBLIC),
            (KEY_FILE, pair.private_key, PRIVATE),
            (CERTIFICATE_FILE, pair.certificate, PUBLIC),
        ):
            write_whole(folder / name, content, mode=mode)
    except OSError as error:
        raise ConfigError(f"cannot write the certificate in {folder}: {error}", param="folder") from None


def _check(hosts: Sequence[str], days: int) -> None:
    """Raises InvalidRequest for a validity out of bounds, and for a host that would pass for another role."""
    if any(host.casefold().rstrip(".").endswith(DOMAIN) for host in hosts):
        raise InvalidRequest(f"--host must not end with {DOMAIN}: those names tell roles", param="host")
    if not 1 <= days <= MAX_DAYS:
        raise InvalidRequest(f"--days is {days}; it must be from 1 to {MAX_DAYS}", param="days")
