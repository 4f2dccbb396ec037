"""Certificates are signed by their authority, tell a role, keep their keys private, and can be renewed."""

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from headrace.errors import ConfigError, InvalidRequest
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role import CALLERS, CLIENTS, ROLES, SERVERS, name_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> CertificateFolder:
    folder = CertificateFolder(tmp_path_factory.mktemp("certificates"))
    folder.create(days=30)
    return folder


def policy(authority: bytes) -> PolicyBuilder:
    return PolicyBuilder().store(Store([x509.load_pem_x509_certificate(authority)]))


@pytest.mark.parametrize("role", sorted(SERVERS))
def test_a_server_is_verified_by_its_role_and_by_its_hosts(made: CertificateFolder, role: str) -> None:
    identity = next(identity for identity in made.list_identities() if identity.role == role)
    certificate = x509.load_pem_x509_certificate(identity.certificate)
    for name in (name_of(role), "localhost", role):
        policy(identity.authority).build_server_verifier(x509.DNSName(name)).verify(certificate, [])
    others = [name_of(other) for other in ROLES if other != role]
    for name in (*others, "example.com"):
        with pytest.raises(x509.verification.VerificationError):
            policy(identity.authority).build_server_verifier(x509.DNSName(name)).verify(certificate, [])


@pytest.mark.parametrize("role", sorted(CLIENTS))
def test_a_client_is_verified_by_its_own_authority_only(made: CertificateFolder, role: str, tmp_path: Path) -> None:
    identity = next(identity for identity in made.list_identities() if identity.role == role)
    certificate = x509.load_pem_x509_certificate(identity.certificate)
    policy(identity.authority).build_client_verifier().verify(certificate, [])
    other = CertificateFolder(tmp_path).create()[0]
    with pytest.raises(x509.verification.VerificationError):
        policy(other.authority).build_client_verifier().verify(certificate, [])


def test_only_who_calls_may_be_a_client_and_only_who_is_called_a_server(made: CertificateFolder) -> None:
    for identity in made.list_identities():
        extensions = x509.load_pem_x509_certificate(identity.certificate).extensions
        purposes = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        assert (ExtendedKeyUsageOID.SERVER_AUTH in purposes) == (identity.role in SERVERS)
        assert (ExtendedKeyUsageOID.CLIENT_AUTH in purposes) == (identity.role in CALLERS)


def test_keys_are_for_their_user_only(made: CertificateFolder) -> None:
    keys = list(made.path.rglob("*.key"))
    assert len(keys) == len(ROLES) + 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert [path for path in made.path.rglob("*") if path.suffix == ".new"] == []


def test_a_second_authority_is_not_made_by_accident(made: CertificateFolder) -> None:
    with pytest.raises(InvalidRequest, match="headrace certs renew"):
        made.create()


def test_renewing_keeps_authority_and_hosts_and_changes_all_else(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path)
    before = folder.create(hosts=["gpu-1.example", "10.0.0.7"], days=10)
    after = folder.renew(days=20)
    for old, new in zip(before, after, strict=True):
        assert (new.role, new.authority, new.hosts) == (old.role, old.authority, ("gpu-1.example", "10.0.0.7"))
        assert new.fingerprint != old.fingerprint
        assert new.private_key != old.private_key
        assert new.expires - old.expires > datetime.timedelta(days=9)
    assert folder.renew(hosts=["other.example"])[0].hosts == ("other.example",)


def test_a_certificate_never_outlives_its_authority(tmp_path: Path) -> None:
    identity = CertificateFolder(tmp_path).create(days=3650)[0]
    authority = x509.load_pem_x509_certificate(identity.authority)
    assert identity.expires <= authority.not_valid_after_utc


@pytest.mark.parametrize("host", ["worker.headrace.internal", "Gateway.Headrace.Internal."])
def test_no_host_passes_for_a_role(tmp_path: Path, host: str) -> None:
    with pytest.raises(InvalidRequest, match="roles"):
        CertificateFolder(tmp_path).create(hosts=[host])


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_a_validity_out_of_bounds_is_refused(tmp_path: Path, days: int) -> None:
    with pytest.raises(InvalidRequest, match="--days"):
        CertificateFolder(tmp_path).create(days=days)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="headrace certs create"):
        CertificateFolder(tmp_path / "none").renew()
    with pytest.raises(ConfigError, match="neither an ASCII host name nor an IP address"):
        CertificateFolder(tmp_path).create(hosts=["grüße.example"])
    assert list(tmp_path.iterdir()) == []
