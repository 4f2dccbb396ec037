"""Flags of a load, and of what counts as served well."""

from dataclasses import dataclass
from typing import Literal

from cyclopts import Parameter

from headrace.cli.output import fail
from headrace.load_generator.closed_loop import Workload
from headrace.load_generator.profile import Session, Turn
from headrace.load_generator.session_load import SessionLoad

DEFAULT_CLIENTS = 8
DEFAULT_TOKENS = 64


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LoadFlags:
    """Requests to send, and the latencies that they are held to."""

    profile: Literal["chat", "rag", "code", "batch"] | None = None
    """Lengths and shared prefixes of a kind of use. chat: 4 system prompts of 200 tokens, 3 turns, questions of 40,
    answers of 160. rag: 3 of 40 documents of 500, a question of 30, an answer of 120. code: 8 files of 1,200, 4 edits
    of 25, completions of 50. batch: one instruction of 300, items of 300, answers of 30. Numbers are medians, turns a
    mean. Lengths shrink together where the model is too short for them."""
    requests: int = 64
    """Total number of requests."""
    concurrency: int | None = None
    """Number of clients; each sends its next request when the last one has ended. Default: 8."""
    rate: float | None = None
    """Requests per second, instead of a number of clients: an open loop, in which they arrive as a Poisson process,
    however long answers take. Further turns of a profile's session follow when the answer before has come."""
    input_tokens: int | None = None
    """Tokens per prompt, without a profile. Prompts are random, so no prefix is shared. Default: 64."""
    output_tokens: int | None = None
    """Tokens to generate per request, without a profile. Default: 64."""
    slo_ttft_ms: float | None = None
    """Goodput counts requests whose first token came within this many milliseconds."""
    slo_tpot_ms: float | None = None
    """Goodput counts requests whose time per token stayed within this many milliseconds."""
    seed: int = 0
    """Another seed draws other prompts."""

    @property
    def clients(self) -> int:
        return self.concurrency or DEFAULT_CLIENTS

    def check(self, *, as_json: bool) -> None:
        """Ends the command, with the reason, for flags that cannot be or exclude each other."""
        counts = (self.requests, self.concurrency, self.input_tokens, self.output_tokens)
        if any(count is not None and count < 1 for count in counts):
            fail("--requests, --concurrency, --input-tokens and --output-tokens must be at least 1", as_json)
        if self.rate is not None and self.rate <= 0:
            fail("--rate must be above 0 requests per second", as_json)
        if self.profile is not None and (self.input_tokens, self.output_tokens) != (None, None):
            fail("--profile has its own lengths: leave --input-tokens and --output-tokens out", as_json)
        if self.rate is not None and self.concurrency is not None:
            fail(
                "--rate and --concurrency exclude each other: an open loop has as many at once as have arrived", as_json
            )

    def workload(self, address: str, model: str, key: str) -> Workload | SessionLoad:
        """Makes the load of requests that all have the same lengths."""
        lengths = (self.input_tokens or DEFAULT_TOKENS, self.output_tokens or DEFAULT_TOKENS)
        load = Workload(address, model, self.requests, self.clients, *lengths, seed=self.seed, key=key)
        return load if self.rate is None else _open_load(load, self.rate)


def _open_load(load: Workload, rate: float) -> SessionLoad:
    sessions: list[Session] = [
        (Turn(load.prompt(index), load.output_token_count),) for index in range(load.request_count)
    ]
    return SessionLoad(load.url, load.model, sessions, rate=rate, seed=load.seed, key=load.key)
