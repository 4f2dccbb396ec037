"""One room decides which caller may talk to which service: certificates, roles, credentials, permissions, TLS."""

import ast
import re
from pathlib import Path

from tests.architecture.parsed_sources import nodes_of

HOME = "libs/headrace/security/"
DECIDING = re.compile(r"\w*(Role|Certificate|Authority|Credential|Permission|Login|PortTls)\w*")
"""Classes that decide who a caller is, or what it may do."""
ADAPTERS = {
    # Interceptors and channels of gRPC, which carry out what the room decides.
    "libs/headrace/rpc/credential_guard.py: CredentialGuard",
    "libs/headrace/rpc/credentialed_channel.py: CredentialedChannel",
    # Makes the certificates of a platform on one machine, with the room's authority.
    "libs/headrace/supervisor/security/platform_certificates.py: PlatformCertificates",
    # The bus knows a Protocol alone.
    "libs/headrace/bus/login.py: Login",
}
OTHER_SUBJECTS = {"WorkerRole"}
"""Classes that divide prefill and decode."""
MAKING = ("cryptography", "nacl", "jwt")
"""Packages that make or read certificates, keys and tokens."""
SERVING = re.compile(r"\b(ssl_server_credentials|PROTOCOL_TLS_SERVER|load_cert_chain)\b")
"""Ways to serve TLS, other than uvicorn's, which takes paths."""


def strays_of(place: str, path: Path) -> list[str]:
    """Lists what decides about callers in a module outside of the room."""
    found = []
    for node in nodes_of(path, ast.ClassDef, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.ClassDef) and DECIDING.fullmatch(node.name) and node.name not in OTHER_SUBJECTS:
            found.append(f"{place}: {node.name}")
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [f"{place}: import {name}" for name in names if name.partition(".")[0] in MAKING]
    return found + [f"{place}: {name}" for name in SERVING.findall(path.read_text())]


def test_one_room_decides_who_may_talk_to_whom(root: Path) -> None:
    found = {
        stray
        for top in ("libs", "services")
        for path in sorted((root / top / "headrace").rglob("*.py"))
        if not (place := path.relative_to(root).as_posix()).startswith(HOME) and "/v1/" not in place
        for stray in strays_of(place, path)
    }
    assert found == ADAPTERS


def test_a_second_room_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "from cryptography import x509\n"
        "class RoleTable:\n    pass\n"
        "class WorkerRole:\n    pass\n"
        "tls = grpc.ssl_server_credentials(pairs)\n"
    )
    assert strays_of("a.py", path) == [
        "a.py: import cryptography",
        "a.py: RoleTable",
        "a.py: ssl_server_credentials",
    ]
