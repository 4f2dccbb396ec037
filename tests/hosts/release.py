"""Code that the processes of a platform run: this checkout, or an earlier commit beside it."""

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORMER = os.environ.get("HEADRACE_HOSTS_OLD", "4f41b57e04eea41bbf2024cf300107185ee5afac")
"""Commit that a platform is upgraded from: of 2026-11-26, two days of work before there were hosts. A newer one may be
named as soon as it differs enough."""
KERNELS = Path("libs/headrace/engine/kernels")
SETTINGS = Path("libs/headrace/lifecycle/settings.py")
NEW_SETTINGS = ("nats_replicas",)
COMPILE_SECONDS = 900.0


@dataclass(frozen=True)
class Release:
    """A folder with libs and services."""

    folder: Path = ROOT
    unknown_settings: tuple[str, ...] = ()
    """Settings of every service that it does not know yet."""

    @property
    def variables(self) -> dict[str, str]:
        """Environment in which Python, without its site, finds this code and no other of the same names."""
        paths = [str(self.folder / "libs"), str(self.folder / "services"), sysconfig.get_paths()["purelib"]]
        return {"PYTHONPATH": os.pathsep.join(paths)}


def former_release(commit: str = FORMER) -> Release:
    """Unpacks a commit below build/hosts, with kernels compiled from its own sources, once."""
    named = subprocess.run(
        ["git", "rev-parse", commit], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    folder = ROOT / "build/hosts/releases" / named.stdout.strip()
    library = folder / KERNELS / "_kernels.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = f"git archive {commit} libs services hatch_build.py | tar --extract --directory {folder}"
        subprocess.run(command, shell=True, cwd=ROOT, timeout=60, check=True)
        subprocess.run([sys.executable, "hatch_build.py"], cwd=folder, timeout=COMPILE_SECONDS, check=True)
    text = (folder / SETTINGS).read_text()
    return Release(folder, tuple(name for name in NEW_SETTINGS if f"{name}:" not in text))
