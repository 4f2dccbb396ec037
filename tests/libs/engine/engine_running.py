"""Runs requests through an engine."""

from collections.abc import Iterable

from headrace.engine.engine import Engine
from headrace.engine.request import Delta, EngineRequest, SamplingParams

DEFAULTS: dict[str, object] = {}
"""Settings of the engine that a test runs under: see `each_kernel`."""


def request(request_id: str, prompt: Iterable[int], output: tuple[int, ...] = (), **sampling: object) -> EngineRequest:
    return EngineRequest(request_id, tuple(prompt), SamplingParams(**sampling), output)


def finish(engine: Engine) -> dict[str, list[Delta]]:
    """Steps until there is no work, checking the books and the numbering of each stream on the way."""
    streams: dict[str, list[Delta]] = {}
    for _ in range(10_000):
        if not engine.has_work():
            return streams
        for delta in engine.step():
            stream = streams.setdefault(delta.request_id, [])
            if stream:
                assert delta.first_index == stream[-1].first_index + len(stream[-1].token_ids)
                assert stream[-1].finish_reason is None
            stream.append(delta)
        engine.check_invariants()
    raise AssertionError("the engine does not come to an end")


def tokens(stream: list[Delta]) -> list[int]:
    return [token_id for delta in stream for token_id in delta.token_ids]


def run(engine: Engine, *requests: EngineRequest) -> dict[str, list[int]]:
    for each in requests:
        engine.add(each)
    return {request_id: tokens(stream) for request_id, stream in finish(engine).items()}
