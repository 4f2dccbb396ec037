"""Lines of services, of NATS and of neither are read for what they say."""

import json
from datetime import UTC, datetime

from headrace.cli.commands.logs.log_line import read_line

WRITTEN = {
    "time": "2026-11-28T03:15:06.197+00:00",
    "level": "warning",
    "service": "worker-0",
    "logger": "headrace.worker",
    "message": "packing [/] weights",
    "done": 3,
    "exception": "Traceback",
}
AT = datetime(2026, 11, 28, 3, 15, 6, 197000, UTC)


def test_a_line_of_a_service() -> None:
    line = read_line("worker-0", json.dumps(WRITTEN))
    assert (line.at, line.level, line.message, line.facts) == (AT, "warning", "packing [/] weights", {"done": 3})
    shown = line.shown().plain
    assert shown.endswith("worker-0 warning: packing [/] weights done=3\nTraceback")
    assert shown.startswith(f"{AT.astimezone():%H:%M:%S}.197 ")


def test_a_line_of_nats_has_the_time_of_this_machine() -> None:
    line = read_line("nats", f"[17] {AT.astimezone():%Y/%m/%d %H:%M:%S.%f} [ERR] no [disk]")
    assert (line.at, line.level, line.message) == (AT, "error", "no [disk]")


def test_an_event_and_plain_text_have_the_time_of_the_line_before() -> None:
    before = read_line("gateway", json.dumps(WRITTEN))
    event = read_line("gateway", '{"event": "listening", "http": "127.0.0.1:8000"}', before)
    assert (event.at, event.level, event.shown().plain.partition("gateway ")[2]) == (
        AT,
        "info",
        "listening http=127.0.0.1:8000",
    )
    plain = read_line("gateway", "Segmentation fault", before)
    assert (plain.at, plain.level, plain.is_plain) == (AT, "warning", True)
    assert read_line("gateway", "{broken").at is None
