"""Four unlike workers for platforms in virtual time."""

from headrace.engine.engines.sim import SimConfig
from headrace.scheduler.simulation.simulated_platform import SimulatedPlatform

WORKERS = {
    "H100": (0.008, 2.5e-5, 6e-5, 4096),
    "A100": (0.012, 5e-5, 1e-4, 2048),
    "L4": (0.03, 2e-4, 3e-4, 1024),
    "CPU": (0.06, 1e-3, 2e-3, 512),
}
"""Assumed seconds of a step, of a prompt's token and of a sequence, and tokens of a step. An 8B model's orders of
magnitude."""


def add_unlike_workers(platform: SimulatedPlatform) -> None:
    """Adds one worker of each kind."""
    for name, (base, prompt, sequence, limit) in WORKERS.items():
        config = SimConfig(
            max_model_length=131_072,
            block_count=16_384,
            max_step_token_count=limit,
            base_seconds=base,
            prefill_seconds_per_token=prompt,
            decode_seconds_per_sequence=sequence,
            prefix_cache=False,
        )
        platform.add_worker(name, config)
