"""An Engine that vLLM runs, with its own batching, KV cache and kernels."""

from typing import Any

from vllm import PoolingParams
from vllm.lora.request import LoRARequest
from vllm.v1.engine.exceptions import EngineDeadError

from headrace.domain.step_times import StepTimes
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats
from headrace.engine.vllm.kv_event_log import KvEventLog
from headrace.engine.vllm.load_meter import LoadMeter
from headrace.engine.vllm.output_stream import OutputStream
from headrace.engine.vllm.vllm_sampling import replays, to_sampling
from headrace.errors.tree import HeadraceError, InternalError, InvalidRequest


class VllmEngine:
    """Adds, cancels and steps as `Engine` says. A step waits for what vLLM has to say next."""

    def __init__(
        self, core: Any, spec: EngineSpec, meter: LoadMeter, blocks: KvEventLog, adapters: dict[str, LoRARequest]
    ) -> None:
        """`core`: vLLM's LLMEngine, new. `adapters`: by the names that requests use."""
        self._core = core
        self._spec = spec
        self._meter = meter
        self._blocks = blocks
        self._adapters = adapters
        self._streams: dict[str, OutputStream] = {}
        self._core_ids: dict[str, str] = {}
        """vLLM's ids of requests, by ours."""
        self._failures: list[HeadraceError] = []

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def add(self, request: EngineRequest) -> None:
        self._check(request)
        is_replay = replays(request)
        stream = OutputStream(request, is_replay)
        if stream.is_complete:
            raise InvalidRequest("the output is complete already", param="output_token_ids")
        tokens = request.prompt_token_ids if is_replay else (*request.prompt_token_ids, *request.output_token_ids)
        prompt: dict[str, Any] = {"prompt_token_ids": list(tokens)}
        if request.cache_salt:
            prompt["cache_salt"] = request.cache_salt
        embeds = self._spec.embedding_size is not None
        params = PoolingParams(task="embed") if embeds else to_sampling(request, self._spec, is_replay)
        try:
            core_id = self._core.add_request(
                request.request_id,
                prompt,
                params,
                lora_request=self._adapters[request.adapter] if request.adapter else None,
                priority=int(request.urgency),
            )
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"vLLM does not take this request: {error}") from None
        self._streams[core_id] = stream
        self._core_ids[request.request_id] = core_id

    def cancel(self, request_id: str) -> None:
        core_id = self._core_ids.pop(request_id, None)
        if core_id is not None:
            self._streams.pop(core_id, None)
            self._core.abort_request([core_id], internal=True)

    def has_work(self) -> bool:
        return bool(self._streams or self._failures)

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        if self._failures:
            raise self._failures.pop(0)
        if not self._streams:
            return []
        try:
            outputs = self._core.step()
        except EngineDeadError as error:
            raise InternalError(f"vLLM's engine is dead: {error}") from error
        deltas = []
        for output in outputs:
            core_id = self._core_ids.get(output.request_id)
            stream = None if core_id is None else self._streams.get(core_id)
            if stream is not None and (delta := self._read(stream, output)) is not None:
                deltas.append(delta)
        return deltas

    def stats(self) -> EngineStats:
        waiting = sum(each.request.token_count for each in self._streams.values() if not each.has_begun)
        return self._meter.stats(len(self._streams), waiting, self._spec.block_count)

    def drain_block_events(self) -> BlockEvents:
        return self._blocks.drain()

    def close(self) -> None:
        self._core.engine_core.shutdown()
        self._blocks.close()

    def _read(self, stream: OutputStream, output: Any) -> Delta | None:
        """Returns what an output adds, and forgets requests that are over."""
        try:
            delta = stream.read_embedding(output) if self._spec.embedding_size is not None else stream.read(output)
        except HeadraceError as error:
            self.cancel(stream.request.request_id)
            self._failures.append(error)
            return None
        if output.finished:
            self._streams.pop(self._core_ids.pop(stream.request.request_id), None)
        return delta

    def _check(self, request: EngineRequest) -> None:
        """Raises InvalidRequest for what vLLM would take and not do."""
        if request.adapter and request.adapter not in self._adapters:
            raise InvalidRequest(f"there is no adapter {request.adapter}", param="model")
        size, limit = self._spec.vocabulary_size, self._spec.max_model_length
        if not request.prompt_token_ids:
            raise InvalidRequest("the prompt is empty: it must have at least one token", param="prompt")
        if any(not 0 <= token_id < size for token_id in request.prompt_token_ids):
            raise InvalidRequest(f"a token id of the prompt is outside the vocabulary of {size}", param="prompt")
        generates = self._spec.embedding_size is None
        if request.token_count + generates > limit:
            raise InvalidRequest(
                f"this model's context is {limit} tokens and the request has {request.token_count}: shorten it",
                param="prompt",
            )
