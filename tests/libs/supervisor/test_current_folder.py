"""Files of the folder in which a platform is started are no modules of its services."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from headrace.launch.platform_spec import PlatformSpec
from headrace.supervisor.model_source import resolve
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.platform import Platform
from headrace.supervisor.state import StateFolder

SHADOWED = ("queue", "json", "grpc", "uvloop")
"""Modules that every service imports, of Python and of packages."""


async def commands(state_folder: Path) -> dict[str, list[str]]:
    """Commands that `headrace up` would run, by the kind of service. Starts none."""
    with StateFolder(state_folder) as state:
        platform = Platform(PlatformOptions(PlatformSpec(resolve([])), http_port=0, grpc_port=0), state)
        try:
            return {planned.role: platform.command(planned) for planned in platform.plan()}
        finally:
            await platform.stop()


@pytest.mark.process
@pytest.mark.parametrize("service", ["gateway", "tokenizer", "scheduler", "cache", "worker"])
def test_a_service_imports_none_of_them(tmp_path: Path, service: str) -> None:
    """It ends after its imports, with what it says of itself."""
    folder = tmp_path / "current"
    folder.mkdir()
    for name in SHADOWED:
        (folder / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")
    started = asyncio.run(commands(tmp_path / "state"))[service]
    command = [*started[: started.index(f"headrace.{service}") + 1], "--help"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "shadowed" in done.stderr) == (0, False), done.stderr
    assert f"headrace.{service}" in done.stdout
