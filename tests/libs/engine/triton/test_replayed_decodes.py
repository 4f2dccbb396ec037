"""Steps of decodes in static memory, padded to a few sizes, as CUDA graphs need them: the tokens stay the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.tiny_models import make_family, make_prompts
from tests.libs.engine.triton.tiny_quantized import quantize_tiny

from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.gpu.graphs import static_decodes
from headrace.engine.gpu.graphs.decode_graphs import DecodeGraphs
from headrace.engine.gpu.graphs.static_decodes import count_blocks, count_rows
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors.tree import ConfigError

PROMPTS = make_prompts((5, 37, 20))


def load(folder: Path, **settings: Any) -> TextEngine:
    usual = {"kernels": "triton", "block_count": 32, "max_running_count": 4, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(usual | settings)))


def generate(engine: TextEngine) -> dict[str, list[int]]:
    """Greedy and drawn tokens, of outputs of several lengths."""
    kinds: tuple[dict[str, Any], ...] = ({"temperature": 0}, {"temperature": 1.0, "seed": 5}, {"temperature": 0})
    requests = [
        request(str(index), prompt, max_tokens=3 + index, **kinds[index]) for index, prompt in enumerate(PROMPTS)
    ]
    return run(engine, *requests)


def test_padded_decodes_in_static_memory_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after a sleep, which drops what points to the memory of the KV cache."""
    monkeypatch.setattr(static_decodes, "MIN_TABLE_SIZE", 2)
    quantize_tiny(tmp_path, "awq")
    expected = generate(load(tmp_path))
    seen: list[DecodeGraphs] = []
    compute = DecodeGraphs.run

    def watched(self: DecodeGraphs, arrays: Any) -> torch.Tensor:
        seen.append(self)
        return compute(self, arrays)

    monkeypatch.setattr(DecodeGraphs, "run", watched)
    engine = load(tmp_path, cuda_graphs=True)
    assert generate(engine) == expected
    # Three sequences in four rows; then two, then one.
    assert {row_count for row_count, _ in seen[0].sizes} == {4, 2, 1}
    assert len(seen) == 4
    engine.sleep()
    assert seen[0].sizes == []
    engine.wake()
    assert generate(engine) == expected


def test_sizes_are_few() -> None:
    assert [count_rows(count) for count in (1, 2, 3, 8, 9, 16, 17, 64)] == [1, 2, 4, 8, 16, 16, 24, 64]
    assert [count_blocks(count) for count in (1, 16, 17, 100)] == [16, 16, 32, 128]


def test_a_model_that_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    make_family(tmp_path / "dense", "llama", num_hidden_layers=1)
    with pytest.raises(ConfigError, match="kernels in Triton do not attend here"):
        load(tmp_path / "dense", kernels="torch", cuda_graphs=True)
    make_family(tmp_path / "experts", "mixtral", num_hidden_layers=1)
    with pytest.raises(ConfigError, match="routes this model's experts"):
        load(tmp_path / "experts", cuda_graphs=True)
