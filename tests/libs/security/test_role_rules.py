"""Every internal method has a rule, and names only roles that call."""

from headrace.security.certificates.role import CLIENTS
from headrace.security.role_rules import RULES, may_call
from headrace.v1 import cache_pb2, inference_pb2, scheduler_pb2, tokenizer_pb2, worker_pb2

INTERNAL = (cache_pb2, scheduler_pb2, tokenizer_pb2, worker_pb2)


def test_every_internal_method_has_a_rule_and_no_other() -> None:
    methods = {
        f"/{service.full_name}/{method.name}"
        for module in INTERNAL
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert set(RULES) == methods


def test_rules_name_roles_that_call() -> None:
    assert all(roles and roles <= CLIENTS for roles in RULES.values())


def test_what_has_no_rule_is_for_nobody() -> None:
    service = inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name
    for role in CLIENTS:
        assert not may_call(role, f"/{service}/Chat")
        assert not may_call(role, "/headrace.v1.WorkerService/Unknown")
        assert may_call(role, "/grpc.health.v1.Health/Check")
    assert not may_call(None, "/headrace.v1.WorkerService/Attach")
