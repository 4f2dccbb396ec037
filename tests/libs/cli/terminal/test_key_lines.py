"""The list of keys fits a narrow terminal."""

import io

from rich.console import Console

from headrace.access.key_record import KeyLimits, KeyRecord
from headrace.cli.terminal.key_lines import key_lines


def test_limits_are_in_a_line_of_their_own() -> None:
    limits = KeyLimits(requests_per_minute=60, tokens_per_day=2_000_000, concurrency=3)
    name = "a name that is as long as any"
    record = KeyRecord(
        id="si9sc0dlvh", name=name, tenant=name, digest="0" * 64, created=0.0, expires=1e9, models=("m",), limits=limits
    )
    console = Console(file=io.StringIO(), width=80)
    for line in key_lines([record]):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines[0].split() == ["id", "name", "tenant", "state", "expires"]
    assert lines[1].endswith("expired   2001-09-09 01:46")
    rights = " ".join(line.strip() for line in lines[2:])
    assert rights == "generate embed, models m, 60 requests per minute, 2,000,000 tokens per day, 3 at once"
    assert all(len(line) <= 80 for line in lines)
