"""The description of the API: complete, true, readable, and held to under random requests."""

import re
from pathlib import Path

import httpx2
import pytest
from tests.fuzz.run_schemathesis import run_schemathesis
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.gateway.api.openapi.operations import OPERATIONS

SECONDS = 8
"""`make fuzz-api` has five minutes."""


def test_it_describes_what_there_is_and_nothing_else(demo_platform: RunningPlatform) -> None:
    listed = httpx2.get(f"{demo_platform.http}/", headers={"accept": "application/json"}).json()["endpoints"]
    assert sorted(listed) == sorted(OPERATIONS)
    described = httpx2.get(f"{demo_platform.http}/openapi.json").json()
    places = [f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods]
    assert sorted(places) == sorted(listed)


def test_the_page_shows_each_operation(demo_platform: RunningPlatform) -> None:
    answer = httpx2.get(f"{demo_platform.http}/docs")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    for place, operation in OPERATIONS.items():
        assert f"<code>{place.split()[1]}</code>" in answer.text
        assert operation.summary.replace("'", "&#x27;") in answer.text
    scripts = re.findall(r"<script[^>]*>", answer.text)
    assert all('src="/console/' in script for script in scripts)


@pytest.mark.timeout(SECONDS + 120)
def test_random_requests_find_nothing_that_is_not_described(tmp_path: Path) -> None:
    """The platform is one of its own: random requests may give its model further names."""
    with running_platform(tmp_path / "state") as platform:
        found = run_schemathesis(platform, SECONDS)
        assert found.problems == [], found.output
        platform.wait_until_idle()
