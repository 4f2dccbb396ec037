"""A key bounds what its holder asks for: scopes, models and time."""

from typing import Any

import pytest

from headrace.access.key_record import KeyRecord
from headrace.errors import Forbidden
from headrace.gateway.access.caller import ANYONE, Caller, tenant_of
from headrace.gateway.access.tenant import CLASSES


def caller(**fields: Any) -> Caller:
    usual = {"id": "abcdefgh", "name": "n", "tenant": "acme", "digest": "0" * 64, "created": 0}
    key = KeyRecord.model_validate(usual | fields)
    return Caller(tenant_of(key), key)


def test_anyone_may_do_anything_where_there_are_no_keys() -> None:
    ANYONE.check_scope({"admin"})
    ANYONE.check_model("any")
    assert ANYONE.allowed_seconds(1e9) == 1e9
    assert ANYONE.sees_all_usage


def test_a_deadline_is_no_longer_than_the_key_allows() -> None:
    bounded = caller(longest_deadline=90)
    assert [bounded.allowed_seconds(seconds) for seconds in (1, 90, 600)] == [1, 90, 90]
    assert caller().allowed_seconds(600) == 600


def test_a_class_and_a_weight_come_from_the_key() -> None:
    tenant = caller(highest_class="default", weight=2).tenant
    assert (tenant.name, tenant.weight) == ("acme", 2)
    assert tenant.allowed(CLASSES["realtime"]) == CLASSES["default"]


def test_one_of_the_scopes_is_enough() -> None:
    embeds = caller(scopes=["embed"])
    embeds.check_scope({"embed", "generate"})
    embeds.check_scope(set())
    with pytest.raises(Forbidden, match="generate"):
        embeds.check_scope({"generate"})
    assert not embeds.sees_all_usage
    assert caller(scopes=["admin"]).sees_all_usage
