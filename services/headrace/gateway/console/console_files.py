"""Files of the console, as browsers get them."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).with_name("static")
PAGE = "index.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ETAG_LENGTH = 32


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """One file."""

    content: bytes
    media_type: str
    etag: str
    """Strong validator (RFC 9110, 8.8.3), with its quotes."""


class ConsoleFiles:
    """Table of the files, read once: a request can name no other file of the machine."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Reads the files that lie in `folder` and are of a known type."""
        paths = sorted(path for path in folder.iterdir() if path.suffix in MEDIA_TYPES)
        files = {path.name: _read(path) for path in paths}
        self.page = files.pop(PAGE)
        """The page that loads all others."""
        self._files = files

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def find(self, name: str) -> ConsoleFile | None:
        return self._files.get(name)


def _read(path: Path) -> ConsoleFile:
    content = path.read_bytes()
    return ConsoleFile(content, MEDIA_TYPES[path.suffix], f'"{sha256(content).hexdigest()[:ETAG_LENGTH]}"')
