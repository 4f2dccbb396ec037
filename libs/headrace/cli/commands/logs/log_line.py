"""One line that a process of a platform wrote: of a service in JSON, of NATS in its own form, or plain text."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

LEVELS = ("debug", "info", "warning", "error", "critical")
PLAIN_LEVEL = "warning"
"""Level of text that a service writes past its log, such as a traceback of the interpreter."""
NATS = "nats"
_NATS_FORM = re.compile(r"\[\d+\] (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d+) \[(\w{3})\] (.*)")
_NATS_LEVELS = {"TRC": "debug", "DBG": "debug", "INF": "info", "WRN": "warning", "ERR": "error", "FTL": "critical"}
_STYLES = {"warning": "yellow", "error": "red", "critical": "red"}
_SHOWN = frozenset({"time", "level", "service", "logger", "message", "exception"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, and what is known of it."""

    process: str
    """Name of the process, as headrace ps has it."""
    text: str
    """The line as it was written."""
    at: datetime | None
    """Time at which it was written. None: it does not say, nor does a line before it."""
    level: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further fields."""
    exception: str = ""
    is_plain: bool = False
    """Whether it is text without a level of its own."""

    @property
    def rank(self) -> int:
        """Place of its level among LEVELS."""
        return LEVELS.index(self.level) if self.level in LEVELS else LEVELS.index("info")

    def shown(self) -> Text:
        """Returns the line for people, with the time of this machine."""
        style = _STYLES.get(self.level, "")
        line = Text()
        if self.at is not None:
            local = self.at.astimezone()
            line.append(f"{local:%H:%M:%S}.{local.microsecond // 1000:03} ", "dim")
        line.append(f"{self.process} ", "cyan")
        if style and not self.is_plain:
            line.append(f"{self.level}: ", style)
        line.append(self.message, style)
        rest = " ".join(f"{key}={value}" for key, value in self.facts.items())
        line.append(f" {rest}" if rest else "", "dim")
        return line.append(f"\n{self.exception}" if self.exception else "")


def read_line(process: str, text: str, before: LogLine | None = None) -> LogLine:
    """Reads a line. `before`: the one before it in the log, whose time it has where it says none."""
    earlier = before.at if before else None
    if text.startswith("{") and (found_entry := _read_entry(process, text, earlier)) is not None:
        return found_entry
    if found := _NATS_FORM.match(text):
        # It writes the time of this machine.
        at = datetime.strptime(found[1], "%Y/%m/%d %H:%M:%S.%f").astimezone(UTC)
        return LogLine(process, text, at, _NATS_LEVELS.get(found[2], "info"), found[3])
    return LogLine(process, text, earlier, PLAIN_LEVEL, text, is_plain=True)


def _read_entry(process: str, text: str, earlier: datetime | None) -> LogLine | None:
    """Reads a line in JSON: one of a log, or an event for whatever started the service. None: it is neither."""
    try:
        entry = dict(json.loads(text))
        facts = {key: value for key, value in entry.items() if key not in _SHOWN and key != "event"}
        if "event" in entry:
            return LogLine(process, text, earlier, "info", str(entry["event"]), facts)
        at, level, message = datetime.fromisoformat(entry["time"]), str(entry["level"]), str(entry["message"])
        return LogLine(process, text, at, level, message, facts, str(entry.get("exception", "")))
    except (ValueError, KeyError, TypeError):
        return None
