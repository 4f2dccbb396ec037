"""List of API keys that fits a terminal of 80 columns."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from headrace.access.key_record import KeyRecord
from headrace.cli.terminal.shortened import shortened

NAME_WIDTH, TENANT_WIDTH = 20, 16
_FORM = f"{{:<12}}  {{:<{NAME_WIDTH}}}  {{:<{TENANT_WIDTH}}}  {{:<8}}  {{}}"


def key_lines(records: Sequence[KeyRecord]) -> Iterator[RenderableType]:
    """Yields two lines for each key: whose it is and whether it works, and what it may do. Times are in UTC."""
    yield Text(_FORM.format("id", "name", "tenant", "state", "expires"), "dim")
    for record in records:
        names = shortened(record.name, NAME_WIDTH), shortened(record.tenant, TENANT_WIDTH)
        yield Text(_FORM.format(record.id, *names, record.state, _expiry(record)).rstrip())
        yield Padding(Text(", ".join(_rights(record)), "dim"), (0, 0, 0, 2))


def _rights(record: KeyRecord) -> Iterator[str]:
    yield " ".join(record.scopes)
    yield f"models {' '.join(record.models)}" if record.models else "all models"
    for name, value in record.limits.model_dump(exclude_none=True).items():
        yield f"{value:,} {name.replace('_', ' ')}" if name != "concurrency" else f"{value:,} at once"


def _expiry(record: KeyRecord) -> str:
    return "" if record.expires is None else datetime.fromtimestamp(record.expires, tz=UTC).strftime("%Y-%m-%d %H:%M")
