"""Plans of platforms, with addresses and folders that a test can recognize."""

from pathlib import Path
from typing import Any

from headrace.launch.nats_spec import NatsSpec
from headrace.launch.plan import plan
from headrace.launch.platform_spec import PlatformSpec
from headrace.launch.process_spec import ProcessSpec
from headrace.launch.roster import Roster
from headrace.launch.site import ProcessSite, Site

STATE = Path("/state")
CORES = 16


def site_for(spec: PlatformSpec, **changed: Any) -> Site:
    """A site in which the process called X listens at X:1."""
    given: dict[str, Any] = {
        "processes": {name: ProcessSite(f"{name}:1", folder=STATE / name) for name in Roster.of(spec).names},
        "http_address": "here:8000",
        "nats_url": "nats://here:4222",
        "nats": NatsSpec(STATE / "nats.conf", STATE / "nats"),
        "core_count": CORES,
    }
    return Site(**(given | changed))


def planned(spec: PlatformSpec, **changed: Any) -> dict[str, ProcessSpec]:
    """The processes of a platform by name; `changed` are parts of its site."""
    return {process.name: process for process in plan(spec, site_for(spec, **changed))}
