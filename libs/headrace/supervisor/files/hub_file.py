"""Files of a model on a hub, and which of them are needed to serve it.

The hub's interface is that of https://huggingface.co/docs/hub/api: a tree of files with sizes and checksums.
"""

import fnmatch
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from headrace.errors import ConfigError, InvalidCheckpoint, NotFound, Unavailable
from headrace.gguf_text.gguf_parts import whole_name

URL_VARIABLE = "HEADRACE_HUB_URL"
TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_URL = "https://huggingface.co"
PATTERNS = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model")
USUAL_GGUF = "q4_k_m"
"""Quantization that is taken where a repository has several and none was chosen: small, and close to the original."""
TIMEOUT = 30.0
PIECE_BYTES = 1 << 20
MAX_FILES = 10_000
"""Files of one repository."""
MAX_PATH_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository."""

    path: str
    size: int
    sha256: str
    """Checksum of a large file; empty for a small one, which has a git id."""
    git_id: str

    def check(self, path: Path) -> None:
        """Raises InvalidCheckpoint unless a file has the size and the checksum."""
        size = path.stat().st_size
        digest = hashlib.sha256() if self.sha256 else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                digest.update(piece)
        if size != self.size or digest.hexdigest() != (self.sha256 or self.git_id):
            raise InvalidCheckpoint(
                f"{self.path} was not received as the hub has it: its checksum differs; pull it again"
            )


def hub_url() -> str:
    """Returns the address of the hub."""
    return (os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")


def hub_headers() -> dict[str, str]:
    """Returns the headers that show who asks; none without a token."""
    token = os.environ.get(TOKEN_VARIABLE)
    return {"authorization": f"Bearer {token}"} if token else {}


def list_files(client: httpx2.Client, hub_id: str) -> list[HubFile]:
    """Lists the files of a repository. Raises NotFound, Unavailable."""
    url: str | None = f"{hub_url()}/api/models/{hub_id}/tree/main?recursive=true"
    entries: list[Any] = []
    while url:
        try:
            response = client.get(url)
            if response.status_code in (401, 403, 404):
                raise NotFound(f"{hub_url()} has no model {hub_id} for us; a private one needs {TOKEN_VARIABLE}")
            listed = response.raise_for_status().json()
            if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
                raise ValueError("its list of files is not one")
            entries += listed
        except (httpx2.HTTPError, ValueError) as error:
            raise Unavailable(f"cannot ask {hub_url()} for {hub_id}: {error}") from None
        if len(entries) > MAX_FILES:
            raise InvalidCheckpoint(f"the hub names more than {MAX_FILES} files for {hub_id}")
        url = response.links.get("next", {}).get("url")
    return [_file(entry) for entry in entries if entry.get("type") == "file"]


def choose_files(files: Sequence[HubFile], wanted: str) -> list[HubFile]:
    """Returns the files that serving needs. `wanted` is a part of the name of a GGUF file, and may be empty; all parts
    of one that was split count as one. Raises ConfigError."""
    weights = [file for file in files if file.path.lower().endswith(".gguf")]
    if not wanted and any(file.path.endswith(".safetensors") for file in files):
        return [file for file in files if any(fnmatch.fnmatch(file.path, pattern) for pattern in PATTERNS)]
    whole = {file.path: str(Path(file.path).with_name(whole_name(Path(file.path).name))) for file in weights}
    part = wanted.lower() or (USUAL_GGUF if len(set(whole.values())) > 1 else "")
    chosen = [file for file in weights if part in Path(file.path).name.lower()]
    if len({whole[file.path] for file in chosen}) != 1:
        names = ", ".join(dict.fromkeys(whole.values())) or "none"
        raise ConfigError(f"choose one GGUF file by a part of its name, as in NAME:Q4_K_M; there are: {names}")
    return chosen


def _file(entry: dict[str, Any]) -> HubFile:
    path, size, large = entry.get("path"), entry.get("size"), entry.get("lfs") or {}
    if not isinstance(path, str) or not path or "\0" in path or len(path) > MAX_PATH_LENGTH:
        raise InvalidCheckpoint(f"the hub names a file {str(path)[:80]!r}, which is no name of a file")
    if path.startswith("/") or ".." in Path(path).parts:
        raise InvalidCheckpoint(f"the hub names a file {path!r}, which lies outside of the model's folder")
    if type(size) is not int or size < 0 or not isinstance(large, dict):
        raise InvalidCheckpoint(f"the hub does not tell how large the file {path!r} is")
    return HubFile(path, size, str(large.get("oid", "")), str(entry.get("oid", "")))
