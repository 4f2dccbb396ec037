"""Units of systemd start services that exist, with settings that they know, and give up on what cannot start."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.lifecycle.process_run import EXIT_BAD_START
from headrace.settings import Settings, load

SERVICES = ("gateway", "tokenizer", "scheduler", "cache", "worker")
UNITS = ("headrace@.service", "headrace-worker@.service")
PLATFORM = "headrace.service"


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "deploy/systemd"


def directives(path: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", path.read_text(), re.MULTILINE)


def environment(folder: Path, service: str) -> dict[str, str]:
    """Variables that a service of a host is given."""
    lines = (folder / "headrace.env").read_text().splitlines()
    own = " ".join(directives(folder / "headrace@.service", "Environment")).replace("%S", "/var/lib").split()
    pairs = [line.partition("=") for line in [*own, *lines] if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs if name.startswith(f"HEADRACE_{service.upper()}_")}


@pytest.mark.parametrize("service", SERVICES)
def test_every_variable_is_a_setting(folder: Path, schemas: dict[str, type[Settings]], service: str) -> None:
    own = environment(folder, service)
    settings = load(schemas[service], service, [], own).model_dump()
    assert str(settings["credential_file"]) == "/etc/headrace/credential"
    assert len(own) >= 3


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_gives_time_to_stop_and_gives_up_on_a_bad_setting(
    folder: Path, schemas: dict[str, type[Settings]], unit: str
) -> None:
    path = folder / unit
    assert directives(path, "RestartPreventExitStatus") == [str(EXIT_BAD_START)]
    (seconds,) = directives(path, "TimeoutStopSec")
    drained = [load(schemas[each], each, [], environment(folder, each)).model_dump() for each in SERVICES]
    assert int(seconds) > max(each["drain_seconds"] for each in drained) + 10
    assert directives(path, "NoNewPrivileges") == ["yes"]


def test_units_start_modules_that_exist(folder: Path, root: Path) -> None:
    (template,) = directives(folder / "headrace@.service", "ExecStart")
    (worker,) = directives(folder / "headrace-worker@.service", "ExecStart")
    assert worker == template.replace("%i", "worker")
    module = template.partition(" -m ")[2]
    for service in SERVICES:
        assert (root / "services" / module.replace("%i", service).replace(".", "/") / "__main__.py").is_file()


def test_the_platform_is_started_as_a_user_would_and_stops_its_services_itself(folder: Path) -> None:
    (start,) = directives(folder / PLATFORM, "ExecStart")
    command, *arguments = start.split()
    assert (command, arguments[0]) == ("/opt/headrace/bin/headrace", "up")
    assert "HEADRACE_UP=headrace-demo" in (folder / "up.env").read_text()
    assert arguments[-1] == "$HEADRACE_UP"
    assert directives(folder / PLATFORM, "KillMode") == ["mixed"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed; to run it: install it")
def test_systemd_takes_all_units(folder: Path, tmp_path: Path) -> None:
    """The interpreter stands in for installed programs, because systemd checks that they exist."""
    programs = {"/opt/headrace/bin/python": sys.executable, "/opt/headrace/bin/headrace": sys.executable}
    for unit in folder.glob("*.service"):
        text = unit.read_text()
        for name, program in programs.items():
            text = text.replace(name, program)
        (tmp_path / unit.name).write_text(
            re.sub(r"(?m)^ExecStart=\S*nats-server\S*", f"ExecStart={sys.executable}", text)
        )
    names = ["headrace.service", "headrace-nats.service", "headrace@gateway.service", "headrace-worker@two.service"]
    assert "headrace" not in complaints(tmp_path, *names)
    wrong = tmp_path / PLATFORM
    wrong.write_text(wrong.read_text().replace("KillMode=mixed", "KillMode=some"))
    assert "kill mode" in complaints(tmp_path, PLATFORM)


def complaints(folder: Path, *units: str) -> str:
    """Returns the complaints of `systemd-analyze verify` about units of a folder."""
    command = ["systemd-analyze", "verify", "--man=no", *(str(folder / unit) for unit in units)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stderr


def test_services_find_each_other(folder: Path, schemas: dict[str, type[Settings]]) -> None:
    gateway = load(schemas["gateway"], "gateway", [], environment(folder, "gateway")).model_dump()
    for service in ("tokenizer", "scheduler", "cache"):
        own = load(schemas[service], service, [], environment(folder, service)).model_dump()
        assert gateway[f"{service}_addresses"] == (own["listen_address"],)


def test_every_alert_has_its_page(root: Path) -> None:
    """Its meaning and what to do, in the runbook."""
    alerts = re.findall(r"- alert: (\w+)", (root / "deploy/observability/alerts.yml").read_text())
    headings = re.findall(r"^### (\w+)$", (root / "docs/guide/operate.md").read_text(), re.MULTILINE)
    assert len(alerts) > 10
    assert sorted(alerts) == sorted(headings)
