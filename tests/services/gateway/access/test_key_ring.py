"""A key is found by its id, compared in constant time, and read again when the file changes."""

import asyncio
import time
from hmac import compare_digest
from pathlib import Path
from typing import Any

import pytest

from headrace.access.api_key import new_key
from headrace.access.key_file import KeyFile
from headrace.errors import ConfigError, Unauthenticated
from headrace.gateway.access import key_ring
from headrace.gateway.access.gate import Gate
from headrace.gateway.access.key_ring import KeyRing
from headrace.gateway.access.tenant import CLASSES, PUBLIC, Tenant


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def test_a_key_names_its_tenant(keys: KeyFile) -> None:
    key, record = keys.create("laptop", tenant="acme", weight=2.5, highest_class="interactive")
    ring = KeyRing(keys.path)
    for header in (f"Bearer {key.text}", f"bearer {key.text}", f"BEARER  {key.text} ", key.text):
        assert ring.find(header) == record
    assert ring.find(None, key.text) == ring.find("", key.text) == record
    assert Gate(ring).caller(None, key.text).tenant == Tenant("acme", 2.5, CLASSES["interactive"])


def test_without_keys_everyone_is_the_same_tenant() -> None:
    assert Gate().caller(None, None).tenant is PUBLIC
    assert Gate().caller("Bearer whatever", "other").tenant is PUBLIC


def test_the_first_key_is_needed_at_once_and_for_good(keys: KeyFile) -> None:
    ring = KeyRing(keys.path, is_optional=True)
    gate = Gate(ring)
    assert gate.caller(None, None).tenant is PUBLIC
    key, _ = keys.create("first")
    ring.refresh()
    assert gate.caller(None, key.text).tenant.name == "first"
    keys.path.unlink()
    ring.refresh()
    with pytest.raises(Unauthenticated):
        gate.caller(None, None)
    with pytest.raises(ConfigError):
        KeyRing(keys.path)


def test_each_refusal_says_its_cause(keys: KeyFile) -> None:
    good, _ = keys.create("good")
    gone, _ = keys.create("gone")
    late, _ = keys.create("late", expires=time.time() - 1)
    keys.revoke(gone.key_id)
    ring = KeyRing(keys.path)
    causes = {
        "": "is needed",
        f"Bearer {good.text[:-1]}": "not known",
        f"Bearer {new_key(good.key_id).text}": "not known",
        f"Bearer {new_key().text}": "not known",
        f"Basic {good.text}": "not known",
        "Bearer ": "not known",
        f"Bearer {gone.text}": "was revoked",
        f"Bearer {late.text}": "has expired",
        f"Bearer {new_key(gone.key_id).text}": "not known",
    }
    for header, cause in causes.items():
        with pytest.raises(Unauthenticated, match=cause):
            ring.find(header)


def test_known_and_unknown_ids_are_compared_alike(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    key, _ = keys.create("laptop")
    ring = KeyRing(keys.path)
    compared: list[tuple[int, int]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return compare_digest(one, other)

    monkeypatch.setattr(key_ring, "compare_digest", compare)
    ring.find(key.text)
    for wrong in (new_key(key.key_id).text, new_key().text, "no key at all"):
        with pytest.raises(Unauthenticated):
            ring.find(wrong)
    assert compared == [(64, 64)] * 8


def test_the_former_key_works_for_the_overlap(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    former, _ = keys.create("laptop")
    newer, _ = keys.rotate(former.key_id, overlap=3600)
    ring = KeyRing(keys.path)
    assert ring.find(former.text) == ring.find(newer.text)
    later = time.time() + 3601
    monkeypatch.setattr(time, "time", lambda: later)
    assert ring.find(newer.text).id == newer.key_id
    with pytest.raises(Unauthenticated, match="not known"):
        ring.find(former.text)


def test_a_file_that_becomes_unreadable_changes_nothing(keys: KeyFile) -> None:
    key, _ = keys.create("laptop")
    ring = KeyRing(keys.path)
    whole = keys.path.read_text()
    for content in ("{", None):
        keys.path.unlink() if content is None else keys.path.write_text(content)
        ring.refresh()
        assert ring.find(key.text).name == "laptop"
        assert "1 known, but the file is not readable" in str(Gate(ring).report()["keys"])
    keys.path.write_text(whole)
    keys.revoke(key.key_id)
    ring.refresh()
    assert Gate(ring).report()["keys"] == "0 known"
    with pytest.raises(Unauthenticated, match="revoked"):
        ring.find(key.text)


@pytest.mark.anyio
async def test_a_change_is_known_within_a_second(keys: KeyFile) -> None:
    key, _ = keys.create("laptop")
    ring = KeyRing(keys.path)
    watching = asyncio.create_task(ring.watch())
    keys.revoke(key.key_id)
    started = time.monotonic()
    while ring.report() != "0 known":
        assert time.monotonic() - started < 1
        await asyncio.sleep(0.01)
    watching.cancel()


def test_a_gateway_does_not_start_without_its_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        KeyRing(tmp_path / "nowhere.json")


def test_a_gate_gives_every_caller_the_same_accounts(keys: KeyFile) -> None:
    key, _ = keys.create("laptop")
    gate: Any = Gate(KeyRing(keys.path))
    assert gate.caller(key.text, None).bookkeeper is gate.caller(None, key.text).bookkeeper
