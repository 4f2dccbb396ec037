"""Policies are written as settings of the scheduler, and refused as the service would refuse them."""

import pytest

from headrace.errors import ConfigError, InvalidRequest
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.simulation.policy_text import SETTINGS, policy_of


def test_settings_change_the_policy() -> None:
    assert policy_of("default") == Policy()
    assert policy_of("max_batch_size=3, max_window_seconds=0") == Policy(max_batch_size=3, max_window_seconds=0.0)


def test_classes_are_written_with_spaces() -> None:
    policy = policy_of("refused_late_classes=interactive realtime, refused_past_deadline_classes=")
    assert policy.refusal.late == {Urgency.INTERACTIVE, Urgency.REALTIME}
    assert policy.refusal.past_deadline == set()


@pytest.mark.parametrize("name", [name for name in SETTINGS if not name.startswith("refused")])
def test_every_setting_can_be_written(name: str) -> None:
    value = {"max_window_seconds": 0.04}.get(name, 0.5 if name.endswith("_use") else 7)
    policy, field = policy_of(f"{name}={value}"), name.removeprefix("scaling_")
    assert getattr(policy if field == name else policy.scaling, field) == value


@pytest.mark.parametrize("text", ["", "zork=1", "max_batch_size", "default=1", "service_id=x"])
def test_an_unknown_setting_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(InvalidRequest, match="max_waiting_count, "):
        policy_of(text)


@pytest.mark.parametrize(
    "text", ["max_batch_size=0", "max_window_seconds=7", "starvation_seconds=soon", "refused_late_classes=all"]
)
def test_a_value_with_which_no_scheduler_starts_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=text.partition("=")[0]):
        policy_of(text)
