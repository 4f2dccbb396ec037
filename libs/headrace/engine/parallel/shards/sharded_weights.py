"""Tensors of one process's part of a model, cut from those of the whole."""

import re

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.formats.weight_cut import WeightCut, runs_of
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.weight_source import WeightSource
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight, plain, reordered
from headrace.engine.parallel.shards.place import ShardPlace

_LAYER = re.compile(r"^model\.layers\.(\d+)\.")
HEADS = frozenset({"q_proj", "k_proj", "v_proj"})
HEAD = "lm_head"
_HOST = torch.device("cpu")
MAX_RUNS = 3
"""Maximum runs of outputs that are read apart: query, key and value heads of one matrix."""


class ShardedWeights:
    """A WeightSource for one rank. Layers are counted from the rank's first; shapes that are asked for are the rank's.

    Reads its own part of a weight alone, in files whose words and groups the cut falls between; of others the whole.
    Projections into heads and inner units are cut by outputs, those out of them by inputs. Codes stay codes where the
    cut falls between groups. Where a file sorts the inputs of a down projection by group (act-order), the inner units
    are dealt out in that order, so that it does; output projections of attention with sorted inputs become plain
    numbers, because heads cannot be dealt out in parts.
    """

    def __init__(self, source: WeightSource, config: DecoderConfig, place: ShardPlace) -> None:
        """`config`: of the whole model."""
        self._source = source
        self._config = config
        self._place = place
        experts = () if config.experts is None else config.experts.projections
        self._inner = {"gate_proj", "up_proj", *experts[:2]}
        self._down = {"down_proj", *experts[2:]}
        self._held: tuple[str, Weight] | None = None
        """Down projection that was read for its order, by its name."""

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Reads one tensor, see WeightSource. A bias of a product summed over ranks is the first rank's alone."""
        whole_name = self._whole_name(name)
        module, _, kind = whole_name.rpartition(".")
        if kind == "sinks":
            part = self._place.part_of(self._config.head_count)
            return self._source.read(whole_name, (self._config.head_count,), dtype, device)[part.start : part.stop]
        is_cut = kind == "bias" and self._place.tensor_count > 1
        rows = self._rows(module, dtype, device) if is_cut else None
        if rows is None:
            tensor = self._source.read(whole_name, shape, dtype, device)
            return torch.zeros_like(tensor) if self._is_summed(module, kind) and self._place.share else tensor
        return self._source.read(whole_name, (self._out_size(module),), dtype, device)[rows.to(device)]

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        """Reads this rank's part of the weight of one module, see WeightSource."""
        module = self._whole_name(name)
        if self._place.tensor_count == 1:
            return self._source.matrix(module, shape, dtype, device)
        rows = self._rows(module, dtype, device)
        if rows is not None:
            whole_shape = self._out_size(module), shape[1]
            cut = WeightCut(whole_shape, runs_of(rows.tolist()), range(shape[1]))
            part = self._part(module, cut, dtype, device)
            return reordered(self._source.matrix(module, whole_shape, dtype, device), rows) if part is None else part
        if self._ends_block(module):
            in_size = shape[1] * self._place.tensor_count
            cut = WeightCut((shape[0], in_size), (range(shape[0]),), self._place.part_of(in_size))
            if (part := self._part(module, cut, dtype, device)) is not None:
                return part
            return self._take_inputs(module, self._whole(module, shape, dtype, device), dtype)
        return self._source.matrix(module, shape, dtype, device)

    def outputs_of(self, module: str) -> Tensor | None:
        """Returns this rank's outputs of a module, by its name in the whole model: int64 [outputs]. None: all."""
        return None if self._place.tensor_count == 1 else self._rows(module, torch.float32, _HOST)

    def inputs_of(self, module: str, in_size: int) -> Tensor | None:
        """Returns this rank's inputs of a module that has so many in the whole model: int64 [inputs]. None: all."""
        if self._place.tensor_count == 1 or not self._ends_block(module):
            return None
        prefix, _, last = module.rpartition(".")
        if last == "o_proj":
            return _numbers(self._place.part_of(in_size))
        return self._units(prefix, in_size, torch.float32, _HOST)

    def _part(self, module: str, cut: WeightCut, dtype: torch.dtype, device: torch.device) -> Weight | None:
        """Reads a part of a weight alone. None: the whole must be read."""
        if not isinstance(self._source, Weights) or len(cut.outputs) > MAX_RUNS or self._holds(module):
            return None
        return self._source.part(module, cut, dtype, device)

    def _holds(self, module: str) -> bool:
        return self._held is not None and self._held[0] == module

    def _whole_name(self, name: str) -> str:
        first = self._place.layers(self._config.layer_count).start
        return _LAYER.sub(lambda found: f"model.layers.{int(found[1]) + first}.", name)

    def _is_summed(self, module: str, kind: str) -> bool:
        """Whether a tensor is a bias that all ranks' sum has once. The router's outputs are whole on each rank."""
        return kind == "bias" and not module.endswith(".gate")

    def _ends_block(self, module: str) -> bool:
        last = module.rpartition(".")[2]
        return last == "o_proj" or last in self._down

    def _whole(self, module: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        """Returns a whole projection out of heads or inner units."""
        if self._held is not None and self._holds(module):
            (_, weight), self._held = self._held, None
            return weight
        return self._source.matrix(module, (shape[0], shape[1] * self._place.tensor_count), dtype, device)

    def _take_inputs(self, module: str, whole: Weight, dtype: torch.dtype) -> Weight:
        if not isinstance(whole, QuantizedMatrix):
            numbers = plain(whole)
            part = self._place.part_of(numbers.shape[1])
            return numbers[:, part.start : part.stop].contiguous()
        part = self._place.part_of(whole.codes.shape[1])
        deals_units = whole.input_order is None or not module.endswith("o_proj")
        if part.start % whole.group_size or part.stop % whole.group_size or not deals_units:
            return plain(whole)[:, part.start : part.stop].to(dtype).contiguous()
        groups = slice(part.start // whole.group_size, -(-part.stop // whole.group_size))
        return QuantizedMatrix(
            whole.codes[:, part.start : part.stop].contiguous(),
            whole.scales[:, groups].contiguous(),
            whole.zeros[:, groups].contiguous(),
            whole.bits,
            whole.group_size,
            is_float=whole.is_float,
        )

    def _rows(self, module: str, dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """Returns this rank's outputs of a module, int64 [rows]. None: it has all of them."""
        prefix, _, last = module.rpartition(".")
        config, head_size = self._config, self._config.head_size
        if module == HEAD:
            return _numbers(self._place.part_of(config.vocabulary_size))
        if last in HEADS:
            return _numbers(self._place.part_of(self._out_size(module)))
        if last == "qkv_proj":
            query_size, kv_size = config.head_count * head_size, config.kv_head_count * head_size
            return self._segments(query_size, kv_size, kv_size)
        if last in self._inner:
            return self._units(prefix, config.intermediate_size, dtype, device)
        if last == "gate_up_proj":
            units = self._units(prefix, config.intermediate_size, dtype, device)
            return torch.cat([units, units + config.intermediate_size])
        return None

    def _segments(self, *sizes: int) -> Tensor:
        first, parts = 0, []
        for size in sizes:
            parts.append(_numbers(self._place.part_of(size)) + first)
            first += size
        return torch.cat(parts)

    def _units(self, prefix: str, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Returns this rank's inner units of a feed-forward block, in the order in which its down projection takes
        them."""
        if self._config.experts is not None and self._config.experts.module in prefix and ".experts." in prefix:
            size = self._config.experts.intermediate_size
            down = f"{prefix}.{self._config.experts.projections[2]}"
        else:
            down = f"{prefix}.down_proj"
        if self._config.quantization is None or self._is_in_order(down, size):
            return _numbers(self._place.part_of(size))
        if self._held is None or self._held[0] != down:
            self._held = down, self._source.matrix(down, (self._config.hidden_size, size), dtype, device)
        weight, part = self._held[1], self._place.part_of(size)
        order = weight.input_order if isinstance(weight, QuantizedMatrix) else None
        is_cut_between_groups = isinstance(weight, QuantizedMatrix) and not (
            part.start % weight.group_size or part.stop % weight.group_size
        )
        if order is None or not is_cut_between_groups:
            return _numbers(part)
        return order[part.start : part.stop].cpu()

    def _is_in_order(self, module: str, in_size: int) -> bool:
        """Whether a module is known to have its inputs in order, without reading it."""
        return isinstance(self._source, Weights) and self._source.is_in_order(module, in_size)

    def _out_size(self, module: str) -> int:
        """Returns how many outputs a module has that is cut by outputs."""
        config, last = self._config, module.rpartition(".")[2]
        sizes = {
            HEAD: config.vocabulary_size,
            "q_proj": config.head_count * config.head_size,
            "k_proj": config.kv_head_count * config.head_size,
            "v_proj": config.kv_head_count * config.head_size,
            "qkv_proj": (config.head_count + 2 * config.kv_head_count) * config.head_size,
            "gate_up_proj": 2 * config.intermediate_size,
        }
        if last in sizes:
            return sizes[last]
        experts = config.experts
        is_expert = experts is not None and ".experts." in module
        return experts.intermediate_size if experts is not None and is_expert else config.intermediate_size


def _numbers(part: range) -> Tensor:
    return torch.arange(part.start, part.stop)
