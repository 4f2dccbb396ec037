"""A pair of which one file is written says so once, and is used when both are there."""

import logging
from pathlib import Path

import pytest
from tests.own_certificate import make_certificate

from headrace.security.public_pair import PublicPair


def test_half_a_renewed_pair_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "next").mkdir()
    renewed, renewed_key = make_certificate(tmp_path / "next")
    pair = PublicPair(certificate, key)
    with caplog.at_level(logging.WARNING):
        assert not pair.renewed()
        certificate.write_bytes(renewed.read_bytes())
        assert [pair.renewed() for _ in range(5)] == [False] * 5
        assert [record.message for record in caplog.records] == ["the renewed certificate is not used yet"]
    key.write_bytes(renewed_key.read_bytes())
    assert [pair.renewed() for _ in range(2)] == [True, False]
