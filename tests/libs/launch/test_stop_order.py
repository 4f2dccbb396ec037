"""A process stops after all that need it."""

from pathlib import Path

import pytest
from tests.harness.planned_platform import planned

from headrace.errors import InternalError
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.process_spec import HealthCheck, ProcessSpec
from headrace.launch.stop_order import stop_order

SPEC = PlatformSpec([ModelSource("a", Path("/x"))], gateways=2)
SERVICES = {"tokenizer", "tokenizer-1", "scheduler", "cache", "worker-0"}


def process(name: str, *needs: str) -> ProcessSpec:
    return ProcessSpec(name, name, "", HealthCheck("grpc", ""), needs=needs)


def test_gateways_stop_first_and_nats_last() -> None:
    gateways, services, nats = stop_order(list(planned(SPEC).values()))
    assert (set(gateways), set(services), nats) == ({"gateway", "gateway-1"}, SERVICES, ["nats"])


def test_without_a_nats_of_its_own_the_services_are_last() -> None:
    assert set(stop_order(list(planned(SPEC, nats=None).values()))[-1]) == SERVICES


def test_a_plan_without_processes_has_nothing_to_stop() -> None:
    assert stop_order([]) == []


def test_processes_that_need_each_other_are_refused() -> None:
    with pytest.raises(InternalError, match="a, b need each other"):
        stop_order([process("a", "b"), process("b", "a")])
