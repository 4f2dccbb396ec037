"""JSON logs, one object a line on stderr, each with the id of the request it belongs to. No prompt text."""

import contextlib
import contextvars
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

_request_id: contextvars.ContextVar[str | None] = contextvars.ContextVar("request_id", default=None)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


@contextlib.contextmanager
def bound_request_id(request_id: str) -> Iterator[None]:
    """Adds the request id to every log line of this task and the tasks it starts."""
    token = _request_id.set(request_id)
    try:
        yield
    finally:
        _request_id.reset(token)


def current_request_id() -> str | None:
    """Returns the request id that log lines of this task carry."""
    return _request_id.get()


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object; `extra` fields become keys."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request_id := _request_id.get()) is not None:
            line["request_id"] = request_id
        line.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure_logging(service: str, level: str) -> None:
    """Sends every logger of this process to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("nats").setLevel(logging.ERROR)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    # Looking up the caller of every log call walks the stack, for a file name that these lines do not show.
    logging._srcfile = None
