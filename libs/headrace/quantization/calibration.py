"""Collects the input moments of a model's projections on a text, for as many layers at once as memory allows."""

from collections.abc import Callable, Iterator, Sequence

from headrace.evaluation.sequence_model import SequenceModel
from headrace.quantization.input_observer import OUTPUT_PROJECTIONS, InputObserver

MOMENT_BYTES = 4 << 30
"""Memory for moments, in bytes. Each run of the text through the model covers as many layers as fit, at least one."""
FLOAT64_BYTES = 8


def layer_of(module: str) -> int:
    """Returns the layer index of a module such as model.layers.3.mlp.up_proj."""
    return int(module.split(".")[2])


def calibrate(
    model: SequenceModel,
    modules: dict[str, tuple[int, int]],
    sequences: Sequence[tuple[int, ...]],
    report: Callable[[float], None],
) -> Iterator[tuple[InputObserver, list[str]]]:
    """Yields the input moments of some layers at a time, and their modules. Calls `report` with the share done."""
    parts = _split_layers(modules)
    experts = model.config.experts
    layers = list(model.decoder.layers)
    for part_index, part in enumerate(parts):
        observer = InputObserver("" if experts is None else experts.module)
        watched = [observer.watch(i, layer) if i in part else layer for i, layer in enumerate(layers)]
        model.decoder.replace_layers(watched)
        for index, sequence in enumerate(sequences):
            model.logits(sequence)
            report((part_index + (index + 1) / len(sequences)) / len(parts))
        model.decoder.replace_layers(layers)
        yield observer, [module for module in modules if layer_of(module) in part]


def _split_layers(modules: dict[str, tuple[int, int]]) -> list[set[int]]:
    """Splits the layers, in order, into parts whose moments fit in memory."""
    sizes: dict[int, dict[tuple[str, bool], int]] = {}
    for module, (_, in_size) in modules.items():
        block, _, projection = module.rpartition(".")
        inputs = sizes.setdefault(layer_of(module), {})
        inputs[block, projection in OUTPUT_PROJECTIONS] = in_size**2 * FLOAT64_BYTES
    parts: list[set[int]] = [set()]
    taken = 0
    for layer, inputs in sorted(sizes.items()):
        if parts[-1] and taken + sum(inputs.values()) > MOMENT_BYTES:
            parts.append(set())
            taken = 0
        parts[-1].add(layer)
        taken += sum(inputs.values())
    return parts
