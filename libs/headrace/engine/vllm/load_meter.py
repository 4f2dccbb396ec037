"""Counts of vLLM's work, as it reports them after each step."""

from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from headrace.engine.contract.request import EngineStats


class LoadMeter(StatLoggerBase):  # type: ignore[misc] # it has no types
    """Sums up what vLLM tells its loggers."""

    def __init__(self, vllm_config: Any = None, engine_index: int = 0) -> None:
        self._running = self._waiting = self._steps = self._preemptions = 0
        self._prompt_tokens = self._output_tokens = self._hit_tokens = 0
        self._drafted = self._accepted = 0
        self._usage = 0.0

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """Takes in one step."""
        self._steps += 1
        if scheduler_stats is not None:
            self._running, self._usage = scheduler_stats.num_running_reqs, scheduler_stats.kv_cache_usage
            self._waiting = scheduler_stats.num_waiting_reqs + scheduler_stats.num_skipped_waiting_reqs
            self._hit_tokens += scheduler_stats.prefix_cache_stats.hits
            if (drafts := scheduler_stats.spec_decoding_stats) is not None:
                self._drafted += drafts.num_draft_tokens
                self._accepted += drafts.num_accepted_tokens
        if iteration_stats is not None:
            self._preemptions += iteration_stats.num_preempted_reqs
            self._prompt_tokens += iteration_stats.num_prompt_tokens
            self._output_tokens += iteration_stats.num_generation_tokens

    def log_engine_initialized(self) -> None:
        """Says nothing: the worker logs that it is ready."""

    def stats(self, open_count: int, waiting_token_count: int, block_count: int) -> EngineStats:
        """Returns a snapshot. `open_count`: requests that are not over, whether or not vLLM has reported them yet."""
        running = min(self._running, open_count)
        return EngineStats(
            running_count=running,
            waiting_count=open_count - running,
            block_count=block_count,
            used_block_count=round(self._usage * block_count) if open_count else 0,
            step_count=self._steps,
            preemption_count=self._preemptions,
            prompt_token_count=max(0, self._prompt_tokens - self._hit_tokens),
            output_token_count=self._output_tokens,
            prefix_hit_token_count=self._hit_tokens,
            draft_token_count=self._drafted,
            accepted_token_count=self._accepted,
            waiting_token_count=waiting_token_count,
        )
