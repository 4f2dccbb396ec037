"""Choice among the lines of logs."""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.cli.commands.logs.log_line import LEVELS, LogLine
from headrace.cli.duration import UNITS
from headrace.errors import InvalidRequest

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Lines since a time, from a level up, and about one request."""

    since: datetime | None = None
    level: str = LEVELS[0]
    request: str = ""
    """Id of a request; empty for all."""

    @property
    def is_narrow(self) -> bool:
        """Whether all lines that it lets through are wanted, however many."""
        return self.since is not None or bool(self.request)

    def lets_through(self, line: LogLine) -> bool:
        if line.rank < LEVELS.index(self.level):
            return False
        if self.since is not None and (line.at is None or line.at < self.since):
            return False
        return self.request in line.text


def request_in_logs(request: str) -> str:
    """Returns the id of a request as logs have it: without what the API puts before it."""
    return re.sub(r"^(chatcmpl|cmpl|resp|msg)[-_]", "", request)


def parse_since(text: str) -> datetime:
    """Returns the time that a text stands for: a duration before now, such as 15m, or a time of this machine, such as
    14:30 or 2026-11-28T14:30. Raises InvalidRequest."""
    text = text.strip()
    if found := _DURATION.fullmatch(text):
        return datetime.fromtimestamp(time.time() - int(found[1]) * UNITS[found[2]], UTC)
    now = datetime.now().astimezone()
    try:
        is_of_today = re.fullmatch(r"\d{1,2}:\d\d(:\d\d)?", text)
        at = datetime.fromisoformat(f"{now:%Y-%m-%d}T{text.zfill(5)}" if is_of_today else text).astimezone(UTC)
    except ValueError:
        raise InvalidRequest(
            f"--since is {text!r}; give a duration such as 90s, 15m, 2h or 1d, or a time such as 14:30 or "
            "2026-11-28T14:30",
            param="since",
        ) from None
    # A time that is still to come today is one of yesterday.
    return at - timedelta(days=1) if is_of_today and at > now else at
