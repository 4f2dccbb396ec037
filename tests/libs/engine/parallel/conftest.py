"""Followers of the groups that these tests make."""

import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from tests.harness.ended import wait_ended
from tests.libs.engine.parallel.forked_followers import END_SECONDS, ForkedFollowers

from headrace.engine.parallel import local_rendezvous


@pytest.fixture(scope="module")
def forking() -> Iterator[ForkedFollowers]:
    followers = ForkedFollowers("tests.libs.engine.parallel.tested_kernels")
    yield followers
    followers.close()


@pytest.fixture
def forked(forking: ForkedFollowers, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes groups fork their followers. The tests that kill a worker start them the way it does."""
    started = SimpleNamespace(Popen=forking.start, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(local_rendezvous, "subprocess", started)
    yield
    left = wait_ended(forking.running(), END_SECONDS)
    assert left == []
