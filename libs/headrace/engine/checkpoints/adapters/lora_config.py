"""Reads the fields of PEFT's `adapter_config.json` that affect what an adapter computes."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headrace.engine.checkpoints.files.json_file import read_json
from headrace.errors.tree import InvalidCheckpoint, Unsupported

T = TypeVar("T")
CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
MAX_PATTERN_LENGTH = 4096

_UNDERSTOOD = {
    "peft_type",
    "r",
    "lora_alpha",
    "rank_pattern",
    "alpha_pattern",
    "use_rslora",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "bias",
    "init_lora_weights",
}
_WITHOUT_EFFECT = {
    "task_type",
    "auto_mapping",
    "peft_version",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "lora_dropout",
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "qalora_group_size",
    "runtime_config",
}
"""Fields about training or file locations, or that only matter beside another field."""
_PLAIN_STARTS = (None, True, False, "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights for which training started from the unchanged base model."""


Names = re.Pattern[str] | tuple[str, ...]
"""Module names: a regular expression for whole names, or the last components of names."""


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """The settings of one adapter."""

    path: Path
    rank: int
    alpha: float
    ranks: tuple[tuple[re.Pattern[str], int], ...]
    """Ranks that replace `rank` in modules with a matching name. The first match wins."""
    alphas: tuple[tuple[re.Pattern[str], float], ...]
    """Alphas that replace `alpha` in modules with a matching name. The first match wins."""
    stabilizes_rank: bool
    """Whether the product is scaled by alpha / sqrt(rank) (rsLoRA; Kalajdzievski, 2023) instead of alpha / rank."""
    targets: Names
    excluded: Names
    layers: tuple[int, ...] | None
    """Indices of the adapted layers. None: all."""
    layer_patterns: tuple[re.Pattern[str], ...]
    """Patterns that extract a module's layer, as the group `layer`."""

    def rank_of(self, module: str) -> int:
        return _first_match(self.ranks, module, self.rank)

    def scale_of(self, module: str) -> float:
        rank = self.rank_of(module)
        return _first_match(self.alphas, module, self.alpha) / (math.sqrt(rank) if self.stabilizes_rank else rank)

    def is_target(self, module: str) -> bool:
        """Whether PEFT would adapt the linear module of this name."""
        if _is_named(module, self.excluded) or not _is_named(module, self.targets):
            return False
        return self.layers is None or isinstance(self.targets, re.Pattern) or self._layer_of(module) in self.layers

    def _layer_of(self, module: str) -> int | None:
        found = (pattern.match(module) for pattern in self.layer_patterns)
        return next((int(match["layer"]) for match in found if match), None)


def read_lora_config(path: Path) -> LoraConfig:
    """Reads the settings of an adapter. Raises InvalidCheckpoint if the file is malformed, Unsupported naming a field
    that Headrace does not support."""
    raw = read_json(path)
    try:
        _refuse_unsupported(path, raw)
        return _read(path, raw)
    except KeyError as error:
        raise InvalidCheckpoint(f"{path} has no {error.args[0]!r}") from error
    except (TypeError, ValueError, OverflowError, re.error, RecursionError) as error:
        if isinstance(error, (InvalidCheckpoint, Unsupported)):
            raise
        raise InvalidCheckpoint(f"{path} is malformed: {error}") from error


def _refuse_unsupported(path: Path, raw: Mapping[str, Any]) -> None:
    if raw.get("peft_type", "LORA") != "LORA":
        raise Unsupported(f"{path}: peft_type is {raw['peft_type']!r}; only LORA is supported")
    if raw.get("bias", "none") != "none":
        raise Unsupported(f"{path}: bias is {raw['bias']!r}; only 'none' is supported")
    start = raw.get("init_lora_weights")
    if not any(start is plain or (isinstance(start, str) and start.lower() == plain) for plain in _PLAIN_STARTS):
        raise Unsupported(
            f"{path}: init_lora_weights is {start!r}, so training began by changing the base model's weights; "
            "convert the adapter when it is saved (PEFT's path_initial_model_for_weight_conversion)"
        )
    for name, value in raw.items():
        if value and name not in _UNDERSTOOD | _WITHOUT_EFFECT:
            raise Unsupported(f"{path}: {name} is set, which Headrace does not support for adapters")


def _read(path: Path, raw: Mapping[str, Any]) -> LoraConfig:
    layers = raw.get("layers_to_transform")
    return LoraConfig(
        path=path,
        rank=_rank(raw["r"]),
        alpha=_number(raw["lora_alpha"]),
        ranks=tuple((_ending(key), _rank(value)) for key, value in dict(raw.get("rank_pattern") or {}).items()),
        alphas=tuple((_ending(key), _number(value)) for key, value in dict(raw.get("alpha_pattern") or {}).items()),
        stabilizes_rank=bool(raw.get("use_rslora", False)),
        targets=_targets(raw["target_modules"]),
        excluded=_names(raw.get("exclude_modules") or ()),
        layers=None if layers in (None, []) else tuple(map(int, layers if isinstance(layers, list) else [layers])),
        layer_patterns=_layer_patterns(raw.get("layers_pattern")),
    )


def _rank(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"a rank is {value!r}; it must be an integer of at least 1")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"an alpha is {value!r}; it must be a finite number")
    return float(value)


def _targets(value: object) -> Names:
    return re.compile(".*") if isinstance(value, str) and value.lower() == "all-linear" else _names(value)


def _names(value: object) -> Names:
    if isinstance(value, str):
        return _compile(value)
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"modules are given as {value!r}; they must be a pattern or a list of names")
    return tuple(value)


def _layer_patterns(value: object) -> tuple[re.Pattern[str], ...]:
    if not value:
        return (re.compile(r".*?\.[^.]*\.(?P<layer>\d+)\."),)
    names = value if isinstance(value, list) else [value]
    return tuple(_compile(rf"(?:^|.*?\.){name}\.(?P<layer>\d+)\.") for name in names)


def _ending(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern that matches the end of a module's name, as PEFT does."""
    return _compile(rf"(.*\.)?({pattern})$")


def _compile(pattern: str) -> re.Pattern[str]:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a pattern has {len(pattern)} characters; at most {MAX_PATTERN_LENGTH} are read")
    return re.compile(pattern)


def _first_match(values: Iterable[tuple[re.Pattern[str], T]], module: str, default: T) -> T:
    return next((value for pattern, value in values if pattern.match(module)), default)


def _is_named(module: str, names: Names) -> bool:
    if isinstance(names, re.Pattern):
        return names.fullmatch(module) is not None
    return any(module == name or module.endswith(f".{name}") for name in names)
