"""A certificate that ends soon is told in the log and in a metric; one that has ended stops the start."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import REGISTRY

from headrace.errors import ConfigError
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.expiry import note_expiry
from headrace.security.certificates.role_identity import RoleIdentity


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> RoleIdentity:
    return CertificateFolder(tmp_path_factory.mktemp("certificates")).create()[0]


@pytest.mark.parametrize(("days", "warns"), [(13, True), (15, False)])
def test_it_warns_within_fourteen_days(
    identity: RoleIdentity, caplog: pytest.LogCaptureFixture, days: int, warns: bool
) -> None:
    soon = replace(identity, expires=datetime.now(UTC) + timedelta(days=days))
    with caplog.at_level(logging.WARNING):
        note_expiry(soon)
    assert [record.message for record in caplog.records] == (["the certificate expires soon"] if warns else [])
    assert REGISTRY.get_sample_value("headrace_certificate_expiry_timestamp_seconds") == soon.expires.timestamp()


def test_an_expired_one_stops_the_start(identity: RoleIdentity) -> None:
    with pytest.raises(ConfigError, match=r"expired at .* headrace certs renew"):
        note_expiry(replace(identity, expires=datetime.now(UTC) - timedelta(seconds=1)))
