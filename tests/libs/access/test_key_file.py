"""The file of keys holds no key, is changed whole under a lock, and says what is wrong with it."""

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.access.api_key import new_key, parse_key
from headrace.access.key_file import KeyFile
from headrace.errors import ConfigError, InvalidRequest, NotFound


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "folder" / "keys.json")


def test_a_key_has_an_id_and_a_secret_of_256_bits() -> None:
    key = new_key()
    assert parse_key(key.text) == key
    assert len(key.key_id) == 10
    assert 62 ** len(key.secret) > 2**256
    assert key.secret not in repr(key)


@pytest.mark.parametrize(
    "text", ["", "sk-", "sk-short-x", "sk-ABCDEFGH-x", "hr-abcdefgh-x", "sk-abcdefgh-", "sk-abcdefgh-é"]
)
def test_what_is_not_a_key_is_not_read_as_one(text: str) -> None:
    assert parse_key(text) is None
    assert parse_key(f"sk-abcdefgh-{'x' * 500}") is None


def test_the_file_holds_the_digest_and_not_the_key(keys: KeyFile) -> None:
    key, record = keys.create("laptop", expires=1e12, scopes=("embed",), limits={"requests_per_day": 5})
    assert keys.read() == {key.key_id: record}
    text = keys.path.read_text()
    assert key.secret not in text
    assert key.digest in text
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert [path.name for path in sorted(keys.path.parent.iterdir())] == ["keys.json", "keys.json.lock"]
    assert record.tenant == "laptop"
    assert record.limits.requests_per_day == 5


def test_a_rotated_key_has_a_new_secret_and_keeps_the_former_for_a_while(keys: KeyFile) -> None:
    first, _ = keys.create("laptop")
    second, record = keys.rotate(first.key_id, overlap=60)
    assert (second.key_id, record.digest, record.former_digest) == (first.key_id, second.digest, first.digest)
    third, record = keys.rotate(first.key_id)
    assert (record.digest, record.former_digest) == (third.digest, None)


def test_a_revoked_key_stays_revoked(keys: KeyFile) -> None:
    key, _ = keys.create("laptop")
    revoked = keys.revoke(key.key_id)
    assert revoked.revoked is not None
    assert keys.revoke(key.key_id) == revoked
    assert not keys.read()[key.key_id].is_valid()
    with pytest.raises(InvalidRequest, match="revoked"):
        keys.rotate(key.key_id)


def test_an_unknown_id_is_refused(keys: KeyFile) -> None:
    keys.create("laptop")
    with pytest.raises(NotFound, match="nobody"):
        keys.revoke("nobody")


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[31m", "a\r\nx: y", "x" * 65, "a,b", " a"])
def test_a_name_holds_nothing_that_a_terminal_or_a_header_reads(keys: KeyFile, name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        keys.create(name)
    assert not keys.path.exists()


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"scopes": ("root",)}, "scopes"),
        ({"limits": {"concurrency": 0}}, "limits.concurrency"),
        ({"weight": 0}, "weight"),
    ],
)
def test_a_bad_field_is_refused_by_name(keys: KeyFile, fields: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidRequest, match=place):
        keys.create("laptop", **fields)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "\xff",
        '{"version": 2}',
        '{"version": 1}',
        '{"version": 1, "keys": 5}',
        '{"version": 1, "keys": [5]}',
        '{"version": 1, "keys": [{"id": "abcdefgh", "secret": "sk-s"}]}',
    ],
)
def test_a_bad_file_is_refused_without_a_word_of_what_is_in_it(keys: KeyFile, content: str) -> None:
    keys.path.parent.mkdir()
    keys.path.write_text(content)
    with pytest.raises(ConfigError, match=str(keys.path)) as refusal:
        keys.read()
    assert "sk-s" not in refusal.value.message
    with pytest.raises(ConfigError):
        keys.create("laptop")
    assert keys.path.read_text() == content


def test_changes_at_the_same_time_are_all_kept(keys: KeyFile) -> None:
    threads = [threading.Thread(target=keys.create, args=(f"key-{number}",)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(json.loads(keys.path.read_text())["keys"]) == 16
