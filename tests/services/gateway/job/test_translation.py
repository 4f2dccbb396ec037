"""Messages that become data of the gateway and messages again lose nothing on the way, whatever fields they have."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from headrace.domain.step_times import StepTimes
from headrace.gateway.fleet.translation import to_model_facts, to_model_info, to_worker_facts
from headrace.gateway.job.translation import to_sampling, to_sampling_params
from headrace.v1.generation_pb2 import (
    GRAMMAR_KIND_REGEX,
    AdapterInfo,
    Grammar,
    ModelInfo,
    ReasoningLimit,
    SamplingParams,
)
from headrace.v1.worker_pb2 import MODEL_RESIDENCE_ASLEEP, WorkerStatus


def full(message: Message) -> None:
    """Gives each plain field a value of its own that is not its default."""
    fields: Sequence[Any] = message.DESCRIPTOR.fields
    for number, field in enumerate(fields, start=1):
        if field.is_repeated or field.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_ENUM):
            continue
        text = field.type == FieldDescriptor.TYPE_STRING
        setattr(message, field.name, f"text {number}" if text else type(getattr(message, field.name))(number))


def test_a_model() -> None:
    info = ModelInfo(adapters=[AdapterInfo(name="a", fingerprint="f"), AdapterInfo(name="b")])
    full(info)
    assert to_model_info(to_model_facts(info)) == info


def test_sampling() -> None:
    params = SamplingParams(
        logit_biases={5: 1.5, 7: -2.0},
        stop_token_ids=[3, 4],
        grammar=Grammar(kind=GRAMMAR_KIND_REGEX),
        reasoning_limit=ReasoningLimit(start_token_ids=[5], end_token_ids=[6, 7]),
    )
    full(params)
    full(params.grammar)
    full(params.reasoning_limit)
    assert to_sampling_params(to_sampling(params)) == params
    assert {field.name for field, _ in params.ListFields()} == set(SamplingParams.DESCRIPTOR.fields_by_name)


def test_what_is_unset_stays_unset() -> None:
    assert to_sampling_params(to_sampling(SamplingParams())) == SamplingParams()
    zeros = SamplingParams(temperature=0, seed=0, logprob_count=0, prompt_logprob_count=0)
    assert to_sampling_params(to_sampling(zeros)) == zeros


def test_a_worker() -> None:
    status = WorkerStatus(model_info=ModelInfo(model="m"))
    full(status)
    facts = to_worker_facts(status)
    assert facts.model == to_model_facts(status.model_info)
    for name in set(facts.__slots__) - {"model", "residence", "step_times"}:
        assert getattr(facts, name) == getattr(status, name)
    assert facts.step_times is None
    full(status.step_times)
    assert to_worker_facts(status).step_times == StepTimes(1.0, 2.0, 3.0, 4.0)
    status.residence = MODEL_RESIDENCE_ASLEEP
    assert (to_worker_facts(status).residence, facts.residence) == ("asleep", "awake")
