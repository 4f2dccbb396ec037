"""`headrace picker`: picks endpoints for a gateway of Kubernetes, by the scheduler's core.

The picker takes the place of this process: it is part of the scheduler's package, which alone knows the core.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.output import fail

WRONG_INPUT = 2
"""Exit code for a flag that cannot be."""


def picker(
    *,
    endpoint: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    endpoints_file: Path | None = None,
    service: str | None = None,
    listen: str | None = None,
    metrics_port: int | None = None,
    config: Path | None = None,
    setting: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
) -> None:
    """Picks endpoints for a gateway: an endpoint picker of the Gateway API Inference Extension, protocol 1.0.

    It serves Envoy's external processing over gRPC, for pools of vLLM, SGLang or Headrace that others run.

    Parameters
    ----------
    endpoint
        An endpoint of the pool, as IP:PORT. Repeat it for several.
    endpoints_file
        File with endpoints, one a line, which is read again when it has changed.
    service
        NAME:PORT of a headless Kubernetes service, whose addresses are endpoints. It is resolved again and again.
    listen
        Address to serve on, 0.0.0.0:9002 by default.
    metrics_port
        Port for its own Prometheus metrics.
    config
        TOML file with a table [picker].
    setting
        Any setting of the picker, as NAME=VALUE. Repeat it for several.
    """
    flags = {
        "endpoints": ",".join(endpoint) or None,
        "endpoints-file": endpoints_file,
        "service": service,
        "listen-address": listen,
        "metrics-port": metrics_port,
        "config": config,
    }
    given = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    command = [sys.executable, "-P", "-m", "headrace.scheduler.picker", *given, *_flags(setting)]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 - the interpreter that runs this


def _flags(settings: tuple[str, ...]) -> Iterator[str]:
    for each in settings:
        name, equals, value = each.partition("=")
        if not (name and equals):
            fail(f"--set {each[:80]!r} must be NAME=VALUE, such as queue_seconds=2", code=WRONG_INPUT)
        yield f"--{name.replace('_', '-')}={value}"
