"""`headrace certs`: makes and renews the certificates by which the services of a platform know each other."""

from pathlib import Path, PurePath
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from headrace.cli.output import console, error_console, print_json
from headrace.errors import ConfigError
from headrace.security.certificates.certificate_folder import DEFAULT_DAYS, CertificateFolder
from headrace.security.certificates.expiry import WARNING
from headrace.security.certificates.role import NATS
from headrace.security.certificates.role_identity import RoleIdentity
from headrace.security.nats_conf import FILE_NAME, nats_conf
from headrace.supervisor.state import DEFAULT_FOLDER

certs = App(name="certs", help="Makes certificates for the services, one for each role.")
DEFAULT_CERTIFICATES = DEFAULT_FOLDER / "certificates"
_Json = Annotated[bool, Parameter(negative="")]
_Hosts = Annotated[tuple[str, ...], Parameter(negative="")]


@certs.command
def create(
    *, folder: Path = DEFAULT_CERTIFICATES, host: _Hosts = (), days: int = DEFAULT_DAYS, json: _Json = False
) -> None:
    """Makes an authority, a certificate and key for each role, and the configuration of NATS.

    Args:
        folder: The folder to make them in. It gets a folder for each role, which is all that a machine of that role
            needs, and one for the authority, which no machine needs.
        host: A further name or address for the certificates, for tools that ask by host; may be repeated. Services ask
            for the role. Default: this machine, and the role's name.
        days: Days for which the certificates are valid. The authority is for ten years.
        json: Print one JSON object.
    """
    made = CertificateFolder(folder)
    identities = made.create(host, days)
    _write_nats_conf(made)
    _show(made, identities, json)
    if not json:
        error_console.print(f"[dim]Run the platform with: headrace up --certificates {made.path}[/]", soft_wrap=True)


@certs.command(name="list")
def list_certificates(*, folder: Path = DEFAULT_CERTIFICATES, json: _Json = False) -> None:
    """Lists the certificates of all roles.

    Args:
        folder: The folder of the certificates.
        json: Print one JSON object.
    """
    known = CertificateFolder(folder)
    _show(known, known.list_identities(), json)


@certs.command
def renew(
    *, folder: Path = DEFAULT_CERTIFICATES, host: _Hosts = (), days: int = DEFAULT_DAYS, json: _Json = False
) -> None:
    """Makes a new certificate and key for each role, by the same authority.

    Servers show it from the next connection on. Restart the services, one after the other, before the former ones
    expire: the connections that they open themselves show what was there when they started.

    Args:
        folder: The folder of the certificates.
        host: A further name or address for the certificates; may be repeated. Default: those of before.
        days: Days for which the certificates are valid.
        json: Print one JSON object.
    """
    known = CertificateFolder(folder)
    identities = known.renew(host, days)
    _write_nats_conf(known)
    _show(known, identities, json)


def _write_nats_conf(folder: CertificateFolder) -> None:
    path = folder.role_folder(NATS) / FILE_NAME
    try:
        path.write_text(nats_conf(PurePath()))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error}", param="folder") from None


def _show(folder: CertificateFolder, identities: list[RoleIdentity], as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(folder.path), "certificates": [_described(identity) for identity in identities]})
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("role", "expires", "hosts", "fingerprint"):
        table.add_column(title)
    for identity in identities:
        style = "red" if identity.remaining() <= WARNING else ""
        expires = identity.expires.strftime("%Y-%m-%d %H:%M")
        table.add_row(identity.role, expires, " ".join(identity.hosts), identity.fingerprint[:16], style=style)
    console.print(table)


def _described(identity: RoleIdentity) -> dict[str, object]:
    return {
        "role": identity.role,
        "expires": identity.expires.isoformat(),
        "hosts": list(identity.hosts),
        "fingerprint": identity.fingerprint,
        "folder": str(identity.folder),
    }
