"""An identity is read whole, or refused with what to do."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role_identity import first_name, read_identity


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CertificateFolder(tmp_path).create()
    return tmp_path


def test_it_tells_its_role_and_nothing_secret(folder: Path) -> None:
    identity = read_identity(folder / "worker")
    assert identity.role == "worker"
    assert "PRIVATE" in identity.private_key.decode()
    assert "PRIVATE" not in repr(identity)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "worker" / "tls.key").unlink()
    with pytest.raises(ConfigError, match=r"tls\.key.*headrace certs create"):
        read_identity(folder / "worker")


def test_a_key_of_another_certificate_is_refused(folder: Path) -> None:
    (folder / "worker" / "tls.key").write_bytes((folder / "cache" / "tls.key").read_bytes())
    with pytest.raises(ConfigError, match="do not belong together"):
        read_identity(folder / "worker")


def test_nonsense_is_refused(folder: Path) -> None:
    (folder / "worker" / "tls.crt").write_text("nonsense")
    with pytest.raises(ConfigError, match="cannot be used"):
        read_identity(folder / "worker")
    with pytest.raises(ConfigError, match="cannot be used"):
        first_name(b"nonsense")


def test_an_authority_is_no_role(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be used|names no role"):
        read_identity(folder / "authority")
