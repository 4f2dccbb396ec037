"""One simulation: traffic, workers, and the policy that places one on the other."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.engine.engines.sim import SimConfig
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.simulation.policy_text import DEFAULT, policy_of
from headrace.scheduler.simulation.scaled_pool import PoolLimits, ScaledPool
from headrace.scheduler.simulation.simulated_platform import MODEL, SimulatedPlatform
from headrace.scheduler.simulation.trace_file import read_trace
from headrace.scheduler.simulation.traffic import Traffic

MAX_VOCABULARY = 2**32 - 1
"""Token ids are hashed as 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Settings of one simulation, as JSON may give them."""

    trace: str
    """Path of the trace."""
    policy: str = DEFAULT
    worker_count: int = 1
    """Workers at the start."""
    least_worker_count: int = 1
    """Minimum number of workers where their number follows the demand."""
    most_worker_count: int | None = None
    """Maximum number of workers where their number follows the demand. None: it is always the same."""
    start_seconds: float = 30.0
    """Time in which a further worker is ready."""
    rate: float = 1.0
    """Factor by which requests come faster than in the trace."""
    seconds: float | None = None
    """Seconds of the trace that are played. None: all."""
    limit: int | None = None
    """Requests of the trace that are played, counted from the first. None: all."""
    timeout_seconds: float = 600.0
    """Time from a request to its deadline."""
    overhead_seconds: float = 0.0
    """Time from a request to its arrival at the scheduler."""
    base_seconds: float
    """Seconds that any step takes."""
    prefill_seconds_per_token: float
    """Seconds that each token of a prompt adds to a step."""
    decode_seconds_per_sequence: float
    """Seconds that each decoding sequence adds to a step."""
    context_seconds_per_token: float = 0.0
    """Seconds that each token of the KV cache that is read adds to a step."""
    max_running_count: int = 64
    """Sequences that a worker runs at once, at most."""
    max_step_token_count: int = 512
    """Tokens of a step, at most."""
    max_step_seconds: float = 0.2
    """Seconds that a step which reads prompts should take at most beside sequences that decode. 0: any time."""
    max_model_length: int = 131_072
    """Tokens of prompt and output together, at most."""
    kv_token_count: int = 262_144
    """Tokens that the KV cache of a worker holds."""
    block_size: int = 16
    """Tokens of a KV block."""
    hourly_price: float = 0.0
    """Price of an hour of a worker. 0: not known."""
    ttft_seconds: float | None = None
    """Service level of the time to the first token. None: any is good."""
    tpot_seconds: float | None = None
    """Service level of a request's mean time between tokens. None: any is good."""

    def traffic(self) -> Traffic:
        """Reads the part of the trace that is played. Raises InvalidRequest."""
        return read_trace(Path(self.trace)).part(self.seconds, self.limit)

    def play(self, traffic: Traffic) -> ScaledPool:
        """Plays traffic to its end, and returns the platform and its workers as they are then.

        Raises InvalidRequest or ConfigError for a policy that cannot be.
        """
        platform = SimulatedPlatform(policy_of(self.policy))
        config = self._worker_config(traffic)
        pool = ScaledPool(platform, config, self.worker_count, self._limits())
        for number, arrival in enumerate(traffic.at_rate(self.rate)):
            arrives_at = arrival.time + self.overhead_seconds
            ticket = Ticket(
                request_id=f"{number:07d}",
                attempt=1,
                model=MODEL,
                tenant=arrival.tenant,
                arrival=arrives_at,
                deadline=arrival.time + self.timeout_seconds,
                prompt_token_count=arrival.prompt_token_count,
                max_token_count=arrival.output_token_count,
            )
            prompt = partial(arrival.prompt_token_ids, number)
            platform.submit(arrives_at, ticket, prompt, asked_at=arrival.time)
        platform.run_to_end()
        return pool

    def _limits(self) -> PoolLimits:
        if self.most_worker_count is None:
            return PoolLimits(self.worker_count, self.worker_count, 0.0)
        return PoolLimits(self.least_worker_count, self.most_worker_count, self.start_seconds)

    def _worker_config(self, traffic: Traffic) -> SimConfig:
        return SimConfig(
            vocabulary_size=MAX_VOCABULARY,
            max_model_length=self.max_model_length,
            block_size=self.block_size,
            block_count=max(1, self.kv_token_count // self.block_size),
            max_running_count=self.max_running_count,
            max_step_token_count=self.max_step_token_count,
            max_step_seconds=self.max_step_seconds,
            # Prompts that share nothing are never found again, so that looking for them changes nothing.
            prefix_cache=traffic.shares_prefixes,
            base_seconds=self.base_seconds,
            prefill_seconds_per_token=self.prefill_seconds_per_token,
            decode_seconds_per_sequence=self.decode_seconds_per_sequence,
            context_seconds_per_token=self.context_seconds_per_token,
        )
