"""Urgency of requests as clients state it, and what they may not say."""

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.request.request_class import SERVICE_TIERS, class_of, first_token_seconds
from headrace.v1.generation_pb2 import (
    PRIORITY_CLASS_BATCH,
    PRIORITY_CLASS_INTERACTIVE,
    PRIORITY_CLASS_REALTIME,
    PRIORITY_CLASS_UNSPECIFIED,
)


def test_the_header_names_the_class() -> None:
    named = [class_of(name) for name in ("realtime", "interactive", "default", "batch", None)]
    assert named == [
        PRIORITY_CLASS_REALTIME,
        PRIORITY_CLASS_INTERACTIVE,
        PRIORITY_CLASS_UNSPECIFIED,
        PRIORITY_CLASS_BATCH,
        None,
    ]


def test_a_service_tier_that_is_not_said_is_the_default_class() -> None:
    assert SERVICE_TIERS[None] == SERVICE_TIERS["auto"] == SERVICE_TIERS["default"] == PRIORITY_CLASS_UNSPECIFIED
    assert SERVICE_TIERS["priority"] == PRIORITY_CLASS_REALTIME
    assert SERVICE_TIERS["flex"] == PRIORITY_CLASS_BATCH


def test_a_time_to_first_token_is_in_milliseconds() -> None:
    assert first_token_seconds("250") == 0.25
    assert first_token_seconds(None) is None


@pytest.mark.parametrize("given", ["", "urgent", "Realtime"])
def test_another_class_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest, match="x-headrace-class"):
        class_of(given)


@pytest.mark.parametrize("given", ["", "0", "-5", "1.5", "soon", "99999999"])
def test_no_number_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest, match="x-slo-ttft-ms"):
        first_token_seconds(given)
