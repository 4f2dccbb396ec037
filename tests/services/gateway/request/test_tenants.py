"""Keys name tenants, tenants have weights and classes, and a bad file says what is wrong with it."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError, Unauthenticated
from headrace.gateway.request.request_class import CLASSES
from headrace.gateway.request.tenants import PUBLIC, Tenant, Tenants, read_tenants

FILE = """
[acme]
keys = ["hr-acme-1", "hr-acme-2"]
weight = 2.5
highest_class = "interactive"

[nightly]
keys = ["hr-night"]
highest_class = "batch"
"""


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    path = tmp_path / "tenants.toml"
    path.write_text(FILE)
    return read_tenants(path)


@pytest.mark.parametrize("header", ["Bearer hr-acme-1", "bearer hr-acme-2", "BEARER  hr-acme-2 ", "hr-acme-1"])
def test_a_key_names_its_tenant(tenants: Tenants, header: str) -> None:
    assert tenants.of(header) == Tenant("acme", 2.5, CLASSES["interactive"])


@pytest.mark.parametrize("header", [None, "", "Bearer ", "Bearer hr-acme", "Bearer hr-acme-11", "Basic hr-acme-1"])
def test_without_a_known_key_nobody_comes_in(tenants: Tenants, header: str | None) -> None:
    with pytest.raises(Unauthenticated):
        tenants.of(header)


def test_without_a_file_everyone_is_the_same_tenant() -> None:
    assert read_tenants(None).of(None) is PUBLIC
    assert read_tenants(None).of("Bearer whatever") is PUBLIC


@pytest.mark.parametrize(
    ("highest", "wanted", "given"),
    [
        ("realtime", "realtime", "realtime"),
        ("interactive", "realtime", "interactive"),
        ("interactive", "batch", "batch"),
        ("default", "interactive", "default"),
        ("batch", "default", "batch"),
        ("batch", "batch", "batch"),
    ],
)
def test_no_request_is_more_urgent_than_its_tenant_may_be(highest: str, wanted: str, given: str) -> None:
    assert Tenant("t", 1.0, CLASSES[highest]).allowed(CLASSES[wanted]) == CLASSES[given]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[acme", "cannot read"),
        ("acme = 1", "acme: "),
        ("[acme]\nkeys = []", "acme.keys"),
        ('[acme]\nkeys = ["k"]\nweight = 0', "acme.weight"),
        ('[acme]\nkeys = ["k"]\nhighest_class = "urgent"', "acme.highest_class"),
        ('[acme]\nkeys = ["k"]\nlimit = 3', "acme.limit"),
        ('[acme]\nkeys = ["k"]\n[other]\nkeys = ["k"]', "the same key"),
    ],
)
def test_a_bad_file_is_refused_by_name_and_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as refusal:
        read_tenants(path)
    assert str(path) in refusal.value.message
    assert '"k"' not in refusal.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        read_tenants(tmp_path / "nowhere.toml")
