"""Place of a model's memory on machines with several NUMA nodes."""

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.memory.interleaving import interleave_memory


def place_memory(config: EngineConfig) -> None:
    """Has a model on the CPU lie on all nodes in turn, see `interleave_memory`. Must run before the threads and
    processes that compute are started: they inherit the policy."""
    if config.device.partition(":")[0] == "cpu":
        interleave_memory()
