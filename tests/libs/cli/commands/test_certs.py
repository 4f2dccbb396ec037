"""`headrace certs` makes what NATS can start with, and says what there is."""

import json
import subprocess
from pathlib import Path

import pytest

from headrace.cli.commands.certs import create, list_certificates, renew
from headrace.errors import ConfigError, InvalidRequest
from headrace.supervisor.nats_server import find_nats_server


def test_making_listing_and_renewing_say_the_same_of_other_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(folder=tmp_path, days=3, json=True)
    list_certificates(folder=tmp_path, json=True)
    made, listed = map(json.loads, capsys.readouterr().out.splitlines())
    assert made == listed
    assert [entry["role"] for entry in made["certificates"]][-2:] == ["nats", "operator"]
    renew(folder=tmp_path, json=True)
    renewed = json.loads(capsys.readouterr().out)
    for old, new in zip(made["certificates"], renewed["certificates"], strict=True):
        assert (old["role"], old["hosts"]) == (new["role"], new["hosts"])
        assert old["fingerprint"] != new["fingerprint"]
        assert old["expires"] < new["expires"]


def test_people_get_a_table_and_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(folder=tmp_path)
    shown = capsys.readouterr()
    assert "scheduler" in shown.out
    assert "headrace up --certificates" in shown.err


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="headrace certs create"):
        list_certificates(folder=tmp_path)
    create(folder=tmp_path)
    with pytest.raises(InvalidRequest, match="headrace certs renew"):
        create(folder=tmp_path)


@pytest.mark.process
def test_nats_understands_its_configuration_in_its_own_folder(tmp_path: Path) -> None:
    create(folder=tmp_path, json=True)
    for text, code in (("", 0), ("nonsense {", 1)):
        with (tmp_path / "nats" / "nats.conf").open("a") as file:
            file.write(text)
        command = [find_nats_server(), "--config", "nats.conf", "-t"]
        done = subprocess.run(command, cwd=tmp_path / "nats", capture_output=True, timeout=30, check=False)
        assert done.returncode == code, done.stderr
