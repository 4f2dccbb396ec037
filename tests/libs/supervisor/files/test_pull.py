"""Models are pulled whole, over connections that break, and never with another content than the hub names."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.errors import ConfigError, InvalidCheckpoint, NotFound, Unavailable
from headrace.supervisor.files import pull as pulling
from headrace.supervisor.files.model_folder import find_model, list_models, models_folder, remove_model
from headrace.supervisor.files.pull import pull
from headrace.supervisor.model_source import resolve

SAFETENSORS = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 1000, "notes.bin": b"not needed"}
GGUF = {"tiny-Q4_K_M.gguf": b"four" * 100, "tiny-Q8_0.gguf": b"eight" * 100, "README.md": b"#"}


class Hub(ThreadingHTTPServer):
    """A hub on this machine that can cut connections and garble files."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.cut_after = 0
        """Bytes of a file after which a connection is cut; 0: never."""
        self.is_garbling = False
        self.listed: object = None
        """Answer to who asks for a list, instead of that of the files."""
        self.starts: list[int] = []
        """First byte of each answer with a file."""


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/org/tiny/"):
            entries = [_entry(name, content) for name, content in self.server.files.items()]
            listed = entries if self.server.listed is None else self.server.listed
            self._answer(200, json.dumps(listed).encode())
        elif self.path.startswith("/org/tiny/resolve/main/"):
            self._send_file(self.server.files[self.path.rpartition("/")[2]])
        else:
            self._answer(404, b"{}")

    def _send_file(self, content: bytes) -> None:
        start = int(self.headers.get("range", "bytes=0-")[6:].partition("-")[0])
        self.server.starts.append(start)
        rest = content[start:] if not self.server.is_garbling else b"?" * len(content[start:])
        if self.server.cut_after and len(rest) > self.server.cut_after:
            self._answer(206 if start else 200, rest, rest[: self.server.cut_after])
        else:
            self._answer(206 if start else 200, rest)

    def _answer(self, status: int, promised: bytes, sent: bytes | None = None) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(promised)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(promised if sent is None else sent)

    def log_message(self, *_: object) -> None: ...


def _entry(name: str, content: bytes) -> dict[str, object]:
    """A file as the hub lists it: large ones with a SHA-256, all with git's id."""
    git_id = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"type": "file", "path": name, "size": len(content), "oid": git_id}
    return entry | ({"lfs": {"oid": hashlib.sha256(content).hexdigest()}} if len(content) > 300 else {})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with Hub(dict(SAFETENSORS)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("HEADRACE_HUB_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HEADRACE_MODELS", str(tmp_path))
        monkeypatch.setattr(pulling, "PAUSE_SECONDS", 0.01)
        yield server
        server.shutdown()
        thread.join(5)


def test_what_serving_needs_is_pulled_listed_and_removed(hub: Hub, tmp_path: Path) -> None:
    reports: list[tuple[str, int, int]] = []
    folder = pull("org/tiny", lambda *report: reports.append(report))
    assert {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")} == {
        name: SAFETENSORS[name] for name in ("config.json", "model.safetensors")
    }
    assert reports[-1] == ("model.safetensors", 256_000, 256_000)
    (source,) = resolve(["mine=org/tiny"])
    assert (source.name, source.folder) == ("mine", folder)
    assert [(model.hub_id, model.is_whole) for model in list_models()] == [("org/tiny", True)]
    asked = len(hub.starts)
    pull("org/tiny")
    assert len(hub.starts) == asked
    remove_model("org/tiny")
    assert list_models() == []
    with pytest.raises(NotFound, match="org/tiny was not pulled; what was: none"):
        remove_model("org/tiny")


def test_a_cut_connection_goes_on_where_it_stopped(hub: Hub) -> None:
    hub.cut_after = 100_000
    folder = pull("org/tiny")
    assert (folder / "model.safetensors").read_bytes() == SAFETENSORS["model.safetensors"]
    assert hub.starts == [0, 0, 100_000, 200_000]


def test_a_later_pull_goes_on_too(hub: Hub) -> None:
    target = models_folder() / "org" / "tiny"
    target.mkdir(parents=True)
    (target / "model.safetensors.part").write_bytes(SAFETENSORS["model.safetensors"][:5000])
    assert [model.is_whole for model in list_models()] == [False]
    assert find_model("org/tiny") is None
    pull("org/tiny")
    assert hub.starts == [0, 5000]


def test_another_content_is_refused_and_thrown_away(hub: Hub) -> None:
    hub.is_garbling = True
    for _ in range(2):
        with pytest.raises(InvalidCheckpoint, match=r"config\.json was not received as the hub has it"):
            pull("org/tiny")
    assert find_model("org/tiny") is None
    hub.is_garbling = False
    pull("org/tiny")
    assert find_model("org/tiny") is not None


def test_a_part_of_another_content_is_noticed_by_its_checksum(hub: Hub) -> None:
    target = models_folder() / "org" / "tiny"
    target.mkdir(parents=True)
    (target / "model.safetensors.part").write_bytes(b"!" * 5000)
    with pytest.raises(InvalidCheckpoint, match="model"):
        pull("org/tiny")
    pull("org/tiny")


def test_one_gguf_file_is_chosen(hub: Hub) -> None:
    hub.files = dict(GGUF)
    pull("org/tiny")
    (source,) = resolve(["org/tiny"])
    assert (source.name, source.folder.name) == ("tiny-Q4_K_M", "tiny-Q4_K_M.gguf")
    remove_model("org/tiny")
    pull("org/tiny:q8_0")
    (source,) = resolve(["org/tiny"])
    assert source.folder.read_bytes() == GGUF["tiny-Q8_0.gguf"]
    with pytest.raises(ConfigError, match=r"there are: tiny-Q4_K_M\.gguf, tiny-Q8_0\.gguf"):
        pull("org/tiny:Q2")


def test_all_parts_of_a_split_gguf_file_are_chosen(hub: Hub) -> None:
    parts = {f"big-Q4_K_M-0000{number}-of-00002.gguf": bytes([number]) * 9 for number in (1, 2)}
    hub.files = {**GGUF, **parts}
    pull("org/tiny:big")
    (source,) = resolve(["org/tiny"])
    assert (source.name, source.folder.name) == ("big-Q4_K_M", "big-Q4_K_M-00001-of-00002.gguf")
    assert {path.name for path in source.folder.parent.glob("*.gguf")} == set(parts)
    (named,) = resolve([str(source.folder.with_name("big-Q4_K_M-00002-of-00002.gguf"))])
    assert (named.name, named.folder) == (source.name, source.folder)
    with pytest.raises(ConfigError, match=r"there are: tiny-Q4_K_M\.gguf, tiny-Q8_0\.gguf, big-Q4_K_M\.gguf"):
        pull("org/tiny")


def test_what_the_hub_does_not_have_is_said(hub: Hub) -> None:
    with pytest.raises(NotFound, match="has no model org/none"):
        pull("org/none")
    with pytest.raises(ConfigError, match="is no hub id"):
        pull("tiny")
    hub.files["../outside.json"] = b"{}"
    with pytest.raises(InvalidCheckpoint, match="outside of the model's folder"):
        pull("org/tiny")


def test_a_hub_that_never_sends_a_byte_is_given_up(hub: Hub) -> None:
    hub.files["model.safetensors"] = b""
    entry = SAFETENSORS["model.safetensors"]
    hub.files = {"config.json": b"{}", "model.safetensors": entry}
    hub.cut_after = -len(entry)
    with pytest.raises(Unavailable, match="pull again to go on where it stopped"):
        pull("org/tiny")


def test_a_mistyped_path_is_not_taken_for_a_model_of_the_hub(hub: Hub) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(["models/llama"])
    said = caught.value.message
    assert "models/llama is neither a folder nor a GGUF file, and neither pulled nor in the catalogue" in said
    assert "headrace models pull models/llama" in said
    assert hub.starts == []


def test_a_file_that_goes_on_beyond_its_size_is_not_received_to_its_end(hub: Hub) -> None:
    hub.listed = [{"type": "file", "path": "model.safetensors", "size": 10, "oid": "x"}]
    hub.files["model.safetensors"] = b"x" * 50_000_000
    seen: list[int] = []
    with pytest.raises(InvalidCheckpoint, match=r"model\.safetensors"):
        pull("org/tiny", lambda _path, received, _size: seen.append(received))
    assert max(seen) < 5_000_000


@pytest.mark.parametrize(
    "entry",
    [
        {"size": 1},
        {"path": None, "size": 1},
        {"path": "", "size": 1},
        {"path": "a\0b", "size": 1},
        {"path": "a" * 5000, "size": 1},
        {"path": "config.json"},
        {"path": "config.json", "size": "many"},
        {"path": "config.json", "size": -1},
        {"path": "config.json", "size": 1, "lfs": 3},
        {"path": "/etc/x", "size": 1},
        {"path": "../x", "size": 1},
    ],
)
def test_a_list_that_makes_no_sense_is_refused(hub: Hub, entry: dict[str, object]) -> None:
    hub.listed = [{"type": "file", **entry}]
    with pytest.raises(InvalidCheckpoint, match="the hub"):
        pull("org/tiny")


@pytest.mark.parametrize("listed", [{}, 3, "x", [3], [None]])
def test_an_answer_that_is_no_list_is_refused(hub: Hub, listed: object) -> None:
    hub.listed = listed
    with pytest.raises(Unavailable, match="cannot ask"):
        pull("org/tiny")


def test_a_file_in_the_place_of_a_folder_is_told(hub: Hub) -> None:
    folder = models_folder() / "org" / "tiny"
    folder.mkdir(parents=True)
    (folder / "sub").write_text("x")
    hub.listed = [
        {"type": "file", "path": "model.safetensors", "size": 1, "oid": "x"},
        {"type": "file", "path": "sub/config.json", "size": 1, "oid": "x"},
    ]
    hub.files["model.safetensors"] = b"x"
    with pytest.raises((ConfigError, InvalidCheckpoint)):
        pull("org/tiny")
