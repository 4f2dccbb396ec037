"""A tenant's requests are never more urgent than its key allows."""

import pytest

from headrace.gateway.access.tenant import CLASSES, Tenant


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
