"""The adapters of one model, all loaded."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.checkpoints.adapters.adapter_parts import AdapterParts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.adapters.adapter import Adapter
from headrace.engine.torch.adapters.peft_reader import read_adapter
from headrace.engine.torch.adapters.step_adapters import AdapterRows, StepAdapters
from headrace.engine.torch.operators.operators import Operators


class AdapterSet:
    """Finds the rows of each adapter in a step."""

    def __init__(self, adapters: Mapping[str, Adapter], device: torch.device) -> None:
        self._adapters = adapters
        self._device = device

    @classmethod
    def load(
        cls,
        folders: Mapping[str, Path],
        model: DecoderConfig,
        operators: Operators,
        dtype: torch.dtype,
        device: torch.device,
        cut: Callable[[AdapterParts], AdapterParts] = lambda parts: parts,
    ) -> "AdapterSet":
        """Reads the folder of each adapter by name. `cut` takes the part of one process out of it. Raises
        InvalidCheckpoint or Unsupported."""
        adapters = {
            name: read_adapter(name, folder, model, operators, dtype, device, cut) for name, folder in folders.items()
        }
        return cls(adapters, device)

    def rows_of(self, arrays: StepArrays) -> StepAdapters | None:
        """Groups the tokens of a step by adapter. Returns None if no request chose one."""
        rows: dict[str, list[int]] = {}
        for name, (first, token_count, *_) in zip(arrays.adapters, arrays.spans.tolist(), strict=False):
            if name:
                rows.setdefault(name, []).extend(range(first, first + token_count))
        if not rows:
            return None
        return StepAdapters(
            tuple(AdapterRows(self._adapters[name], self._tensor(chosen)) for name, chosen in rows.items())
        )

    def _tensor(self, values: Iterable[int]) -> Tensor:
        return torch.tensor(list(values), dtype=torch.int64, device=self._device)
