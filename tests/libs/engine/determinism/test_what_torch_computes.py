"""A CPU engine leaves no sum and no function to a library that may compute it otherwise for other shapes: torch only
looks up, copies, and rounds single operations, which IEEE 754 defines."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.determinism.batch_checkpoints import NAMES, write_checkpoints
from tests.libs.engine.engine_running import engine_config, finish
from tests.libs.engine.needed_kernels import needs_kernels
from torch.utils._python_dispatch import TorchDispatchMode

from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.loading.load_engine import load_engine

pytestmark = needs_kernels

LOOKS_UP_AND_COPIES = {
    *("arange", "argsort", "bincount", "cat", "clone", "copy_", "detach", "embedding", "empty", "empty_like"),
    *("index_select", "lift_fresh", "new_empty", "new_zeros", "select", "slice", "sort", "split", "split_with_sizes"),
    *("unsqueeze", "view", "zeros_like", "_to_copy", "_unsafe_view", "alias", "t", "expand", "squeeze", "unbind"),
    *("resolve_conj", "resolve_neg", "detach_", "to", "flatten"),
    *("floor_divide", "_local_scalar_dense", "item", "is_nonzero", "transpose", "empty_strided", "zeros", "div"),
}
"""Operations that look up and copy, or compute integers: `div` of indices."""
ROUNDS_ONCE = {"add", "add_", "mul", "mul_", "index_add_"}


class Recorder(TorchDispatchMode):
    """The names of the operations that torch is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded")
    write_checkpoints(root)
    return root


@pytest.mark.parametrize("precision", ["auto", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_torch_sums_nothing(name: str, precision: str, checkpoints: Path) -> None:
    folder = checkpoints / name
    adapters = {"all": folder / "all"} if name == "adapters" else {}
    engine = load_engine(folder, engine_config(kernels="torch", precision=precision, block_count=64, adapters=adapters))
    sampling = SamplingParams(max_tokens=4, temperature=0.7, seed=1, top_p=0.9, logprob_count=2, prompt_logprob_count=1)
    for index, length in enumerate((3, 40, 90)):
        adapter = "all" if adapters and index else ""
        engine.add(EngineRequest(str(index), tuple(range(length)), sampling, (), adapter=adapter))
    recorder = Recorder()
    with recorder:
        if engine.spec.embedding_size is None:
            finish(engine)
        while engine.has_work():
            engine.step()
    allowed = LOOKS_UP_AND_COPIES | ROUNDS_ONCE
    assert recorder.names, "nothing was recorded"
    assert recorder.names <= allowed, recorder.names - allowed


def test_a_sum_would_be_seen() -> None:
    recorder = Recorder()
    with recorder:
        torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3))
    assert not recorder.names <= LOOKS_UP_AND_COPIES | ROUNDS_ONCE
