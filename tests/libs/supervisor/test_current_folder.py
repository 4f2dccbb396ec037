"""Files of the folder in which a platform is started are no modules of its services."""

import subprocess
from pathlib import Path

import pytest

from headrace.launch.plan import plan
from headrace.launch.platform_spec import PlatformSpec
from headrace.supervisor.local_site import LocalSite
from headrace.supervisor.model_source import resolve
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.state import StateFolder

SHADOWED = ("queue", "json", "grpc", "uvloop")
"""Modules that every service imports, of Python and of packages."""


def commands(state_folder: Path) -> dict[str, list[str]]:
    """Commands that `headrace up` would run, by the kind of service. Starts none."""
    with StateFolder(state_folder) as state:
        options = PlatformOptions(PlatformSpec(resolve([])), http_port=0, grpc_port=0)
        site = LocalSite(options, state)
        try:
            planned = plan(options.platform, site.describe())
            return {each.role: list(site.start_of(each, state.log_path(each.name)).command) for each in planned}
        finally:
            site.close()


@pytest.mark.process
@pytest.mark.parametrize("service", ["gateway", "tokenizer", "scheduler", "cache", "worker"])
def test_a_service_imports_none_of_them(tmp_path: Path, service: str) -> None:
    """It ends after its imports, with what it says of itself."""
    folder = tmp_path / "current"
    folder.mkdir()
    for name in SHADOWED:
        (folder / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")
    started = commands(tmp_path / "state")[service]
    command = [*started[: started.index(f"headrace.{service}") + 1], "--help"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "shadowed" in done.stderr) == (0, False), done.stderr
    assert f"headrace.{service}" in done.stdout
