"""Reads which layers use a sliding window (Longformer, Beltagy et al., 2020), and its size in tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors.tree import InvalidCheckpoint, Unsupported

FULL, SLIDING = "full_attention", "sliding_attention"


def same_window(raw: Mapping[str, Any], layer_count: int) -> tuple[int | None, ...]:
    """Reads `sliding_window`, the same for every layer. null means none."""
    return windows_of([SLIDING] * layer_count, raw, layer_count)


def read_optional_windows(raw: Mapping[str, Any], layer_count: int) -> tuple[int | None, ...]:
    """Reads Qwen's windows: present only with `use_sliding_window`, in the layers from `max_window_layers` on unless
    `layer_types` is set."""
    if not raw.get("use_sliding_window", False):
        return (None,) * layer_count
    first = int(raw["max_window_layers"])
    usual = [FULL if index < first else SLIDING for index in range(layer_count)]
    return windows_of(raw.get("layer_types") or usual, raw, layer_count)


def windows_of(layer_types: Sequence[str], raw: Mapping[str, Any], layer_count: int) -> tuple[int | None, ...]:
    """Returns the window of each layer, given its attention type."""
    if len(layer_types) != layer_count:
        raise InvalidCheckpoint(f"config.json: layer_types has {len(layer_types)} entries for {layer_count} layers")
    if unknown := sorted(set(layer_types) - {FULL, SLIDING}):
        raise Unsupported(f"attention {unknown[0]!r} is not supported: only {FULL}, {SLIDING}")
    window = raw.get("sliding_window")
    if window is not None and int(window) < 1:
        raise InvalidCheckpoint(f"config.json: sliding_window is {window}")
    return tuple(None if kind == FULL or window is None else int(window) for kind in layer_types)
