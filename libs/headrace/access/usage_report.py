"""Reports of usage: sums over the records of a folder, by key, model, tenant or day."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from headrace.access.usage_record import UsageRecord, from_line
from headrace.errors import InvalidRequest

SUFFIX = ".jsonl"
MILLION = 1_000_000
GROUPS: dict[str, Callable[[UsageRecord], str]] = {
    "key": lambda record: record.key,
    "model": lambda record: record.model,
    "tenant": lambda record: record.tenant,
    "day": lambda record: day_of(record.time).isoformat(),
}


@dataclass(slots=True)
class UsageSum:
    """Sums over records of one group."""

    group: str
    """Key, model, tenant or day that the records share."""
    requests: int = 0
    finished: int = 0
    """Requests that were answered whole."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cached_tokens_from: dict[str, int] = field(default_factory=dict)
    """Cached tokens by the place that had their KV, in records that tell it."""
    output_tokens: int = 0
    cost: float = 0.0
    """Price of the time of accelerators; 0: not known."""

    @property
    def cost_per_million_tokens(self) -> float:
        """Cost of a million tokens, read or made. 0: not known."""
        token_count = self.prompt_tokens + self.output_tokens
        return self.cost * MILLION / token_count if token_count else 0.0

    def add(self, record: UsageRecord) -> None:
        self.requests += 1
        self.finished += record.outcome == "finished"
        self.prompt_tokens += record.prompt_tokens
        self.cached_tokens += record.cached_tokens
        for place, count in (record.cached_tokens_from or {}).items():
            self.cached_tokens_from[place] = self.cached_tokens_from.get(place, 0) + count
        self.output_tokens += record.output_tokens
        self.cost += record.cost

    def as_dict(self, group_name: str) -> dict[str, Any]:
        """Returns the sums by name, the group under its own."""
        content = asdict(self)
        content["cost"] = round(self.cost, 9)
        content["cost_per_million_tokens"] = round(self.cost_per_million_tokens, 6)
        return {group_name: content.pop("group"), **content}


def day_of(seconds: float) -> date:
    """Returns the day, in UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, tz=UTC).date()


def file_name(day: date, service_id: str) -> str:
    """Names the file of one gateway and day."""
    return f"{day.isoformat()}.{service_id}{SUFFIX}"


def read_usage(folder: Path, since: date | None = None, until: date | None = None) -> Iterator[UsageRecord]:
    """Yields the records of a folder from the first day to the last, both included. Lines that are not whole are
    passed over."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        day = path.name.partition(".")[0]
        if (since is None or day >= since.isoformat()) and (until is None or day <= until.isoformat()):
            with path.open("rb") as file:
                for line in file:
                    if (record := from_line(line)) is not None:
                        yield record


def summed(records: Iterable[UsageRecord], by: str) -> list[UsageSum]:
    """Sums records by one of GROUPS, in the order of their names. Raises InvalidRequest for another group."""
    if by not in GROUPS:
        raise InvalidRequest(f"usage is summed by {', '.join(GROUPS)}, not by {by[:40]!r}", param="by")
    sums: dict[str, UsageSum] = {}
    for record in records:
        group = GROUPS[by](record)
        sums.setdefault(group, UsageSum(group)).add(record)
    return [sums[group] for group in sorted(sums)]


def parse_day(text: str | None, param: str) -> date | None:
    """Returns the day that a text such as 2026-11-22 names. Raises InvalidRequest."""
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{param} is {text[:40]!r}; it must be a day such as 2026-11-22", param=param) from None
