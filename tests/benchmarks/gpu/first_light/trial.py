"""Sizes and device of the steps, and the models that they try."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tests.benchmarks.gpu.attention_contests import AttentionSize
from tests.benchmarks.gpu.clock import Clock, EventClock, HostClock
from tests.benchmarks.gpu.product_contests import ProductSize
from tests.benchmarks.gpu.program import Sizes
from tests.benchmarks.peers.shapes import LLAMA, SHAPES, write_awq_checkpoint

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

LAYER_OF_8B = SHAPES["llama-3.1-8b"]
TINY = LLAMA | {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 512,
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A card at the sizes of Llama 3.1 8B, or for a rehearsal a CPU, in Triton's interpreter, at tiny ones."""

    device: torch.device

    @property
    def is_rehearsal(self) -> bool:
        return self.device.type == "cpu"

    @property
    def shape(self) -> dict[str, Any]:
        """The config of a model whose layers are tried."""
        return TINY if self.is_rehearsal else LAYER_OF_8B

    @property
    def layer_counts(self) -> tuple[int, int]:
        """Layers of the model whose tokens are compared, and of the one that is timed, which on a card is whole."""
        return (1, 2) if self.is_rehearsal else (4, 32)

    @property
    def batches(self) -> tuple[int, ...]:
        return (1, 3) if self.is_rehearsal else (1, 16, 64)

    @property
    def contexts(self) -> tuple[int, ...]:
        """Tokens of each prompt before decodes are timed."""
        return (20,) if self.is_rehearsal else (1024, 8192)

    @property
    def prompts(self) -> tuple[int, ...]:
        """Lengths of the prompts whose prefill is timed."""
        return (40,) if self.is_rehearsal else (512, 2048, 8192)

    @property
    def output_count(self) -> int:
        return 3 if self.is_rehearsal else 32

    @property
    def step_tokens(self) -> int:
        return 64 if self.is_rehearsal else 2048

    @property
    def sizes(self) -> Sizes:
        """Sizes at which each kernel is compared with torch."""
        if self.is_rehearsal:
            return Sizes((ProductSize(128, 256),), (1, 17), AttentionSize(4, 2, 32), (2,), 40, (20,))
        products = (ProductSize(6144, 4096), ProductSize(28672, 4096), ProductSize(4096, 14336))
        rows = (1, 4, 5, 16, 17, 32, 64, 65, 255, 256)
        return Sizes(products, rows, AttentionSize(32, 8, 128), (1, 16, 64), 1024, (512, 2048))

    def clock(self) -> Clock:
        """Returns a clock of the device."""
        return HostClock() if self.is_rehearsal else EventClock()

    @contextmanager
    def model(self, layer_count: int) -> Iterator[Path]:
        """Writes a checkpoint of so many layers with random weights in 4 bits, for as long as it is wanted."""
        with TemporaryDirectory() as folder:
            torch.manual_seed(0)
            write_awq_checkpoint(Path(folder) / "model", self.shape | {"num_hidden_layers": layer_count})
            yield Path(folder) / "model"

    def engine(self, folder: Path, **settings: Any) -> TextEngine:
        """Loads a checkpoint on the device, on the kernels in Triton unless the settings say otherwise."""
        usual: dict[str, Any] = {
            "device": str(self.device),
            "kernels": "triton",
            "speculation": "off",
            "prefix_cache": False,
            "max_running_count": max(self.batches),
            "max_step_token_count": self.step_tokens,
            "sampling_defaults": "neutral",
        }
        if self.is_rehearsal:
            usual |= {"block_count": 64, "thread_count": 1}
        return load_text_engine(folder, EngineConfig(**(usual | settings)))
