"""`headrace plan`: says on which devices a model fits, and how many requests at once."""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from headrace.cli.engine_parts import require_engine_parts
from headrace.cli.output import console, fail, print_json
from headrace.errors import ConfigError
from headrace.supervisor.model_source import resolve

MIB, GIB = 1 << 20, 1 << 30
PROFILES = Path(__file__).parents[3] / "deploy" / "profiles"
"""Only in a checkout; installed packages do not have them."""
RESERVE = 0.1
"""Share of a device's memory that is left for activations and everything else."""


def plan(
    model: str,
    *,
    context: int = 2048,
    profiles: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Prints the memory that weights and KV take, for this machine and every device profile, in each precision.

    Parameters
    ----------
    model
        A folder, a GGUF file, headrace-demo, or a hub id. Its weights are not read.
    context
        Tokens of each request, prompt and output.
    profiles
        A folder of device profiles; deploy/profiles of the checkout when not given.
    json
        Print one JSON object.
    """
    if context < 1:
        fail("--context must be at least 1", json)
    require_engine_parts()
    source = resolve([model])[0].folder
    rows = [row for device in _devices(profiles) for row in _rows(source, device, context)]
    if json:
        print_json({"context": context, "rows": [asdict(row) for row in rows]})
    else:
        console.print(_table(rows, context))


@dataclass(frozen=True, slots=True)
class _Device:
    """What a model could run on."""

    name: str
    kind: str
    """cpu or cuda."""
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class _Row:
    """One device with the model in one precision."""

    device: str
    memory_bytes: int
    precision: str
    weight_bytes: int
    kv_bytes_per_token: int
    request_count: int
    """Requests of full context whose KV fits beside the weights. 0: it does not fit."""


def _devices(folder: Path | None) -> Iterator[_Device]:
    yield _Device("this machine", "cpu", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder of device profiles.")
    for path in sorted((folder or PROFILES).glob("*.toml")):
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
            yield _Device(str(raw["name"]), str(raw["device"]), int(raw["memory_bytes"]))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path} is not a device profile: {error!r}.") from error


def _rows(source: Path, device: _Device, context: int) -> Iterator[_Row]:
    from headrace.engine.evaluation.footprint import list_footprints

    for footprint in list_footprints(source, device.kind):
        left = device.memory_bytes * (1 - RESERVE) - footprint.weight_bytes
        yield _Row(
            device.name,
            device.memory_bytes,
            footprint.precision,
            footprint.weight_bytes,
            footprint.kv_bytes_per_token,
            max(0, int(left // (footprint.kv_bytes_per_token * context))),
        )


def _table(rows: list[_Row], context: int) -> Table:
    caption = f"{RESERVE:.0%} of the memory is left for everything else."
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for title in ("device", "precision"):
        table.add_column(title)
    for title in ("memory GiB", "weights MiB", "KV KiB/token", f"requests of {context}"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            row.device,
            row.precision,
            f"{row.memory_bytes / GIB:.1f}",
            f"{row.weight_bytes / MIB:,.1f}",
            f"{row.kv_bytes_per_token / 1024:.1f}",
            f"{row.request_count:,}" if row.request_count else "does not fit",
        )
    return table
