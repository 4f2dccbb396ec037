"""Platforms on several hosts, by `make test-hosts` as root on Linux: no other test makes namespaces of the network."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.fault import Fault
from tests.hosts.fleet_plan import FleetOptions
from tests.hosts.host_platform import on_hosts
from tests.hosts.host_stage import HostStage, HostVerdict

collect_ignore_glob = [] if os.environ.get("HEADRACE_HOSTS") else ["test_*.py"]
NOTED = ("cut", "cut_wrong", "stranded", "resumed", "retried", "slowest", "pause", "is_busy", "late", "broken")
SEED = int(os.environ.get("HEADRACE_HOSTS_SEED", "1"))


class HostTheatre:
    """One platform for several faults, replaced after one that left something broken."""

    def __init__(self, root: Path, options: FleetOptions | None = None) -> None:
        self._rows = root / "build/hosts/rows.jsonl"
        self._rows.parent.mkdir(parents=True, exist_ok=True)
        self._options = options
        self._runner = asyncio.Runner()
        self._open = contextlib.AsyncExitStack()
        self._stage: HostStage | None = None

    def act_out(self, fault: Fault) -> HostVerdict:
        """Acts a fault out, and notes what came of it."""
        return self._runner.run(self._act_out(fault))

    def close(self) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()

    async def _act_out(self, fault: Fault) -> HostVerdict:
        if self._stage is None:
            self._stage = HostStage(await self._open.enter_async_context(on_hosts(self._options)), SEED)
        verdict = await self._stage.run(fault)
        self._note(verdict)
        if verdict.broken:
            self._stage = None
            await self._open.aclose()
        return verdict

    def _note(self, verdict: HostVerdict) -> None:
        """Adds a row to those of other runs."""
        own = {name: getattr(verdict, name) for name in NOTED}
        seen = vars(verdict.seen) | {"folder": None, "failed": verdict.seen.failed, "at": time.time()}
        with self._rows.open("a") as rows:
            rows.write(json.dumps(seen | own) + "\n")


@pytest.fixture(scope="session")
def theatre(root: Path) -> Iterator[HostTheatre]:
    theatre = HostTheatre(root)
    yield theatre
    theatre.close()
