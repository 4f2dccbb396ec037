"""Quantization settings of a checkpoint: `quantization_config` in config.json, or the older files beside it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from headrace.errors.tree import InvalidCheckpoint, Unsupported

Method = Literal["awq", "gptq", "compressed-tensors", "float-quantized", "fp4-pack-quantized", "fp8"]
"""Layout of a module's tensors. compressed-tensors has three: of integers, and of numbers of 8 and of 4 bits."""
METHODS = ("awq", "gptq", "compressed-tensors", "fp8", "mxfp4")
SUPPORTED_BITS = (2, 3, 4, 8)
MXFP4_GROUP = 32
FLOAT_FORMATS: dict[str, tuple[Method, int]] = {
    "float-quantized": ("float-quantized", 8),
    "mxfp4-pack-quantized": ("fp4-pack-quantized", 4),
    "nvfp4-pack-quantized": ("fp4-pack-quantized", 4),
}
"""Layouts and bits of the formats of compressed-tensors whose codes are floating-point numbers."""
OLD_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq"}


@dataclass(frozen=True, slots=True)
class QuantizationScheme:
    """Settings shared by all quantized modules, unless a rule overrides them."""

    method: Method
    bits: int
    group_size: int | None
    """Inputs that share a scale. None: all inputs of a row."""
    symmetric: bool
    zero_offset: int = 0
    """Number that the file subtracted from each stored zero point: 1 in GPTQ's first version, otherwise 0."""
    rules: tuple[tuple[str, Mapping[str, Any] | None], ...] = ()
    """Rules (pattern, overrides) in order; with None, a matching module stays unquantized."""
    is_float: bool = False
    """Whether codes are floating-point numbers: E2M1 in 4 bits, E4M3 in 8."""
    block_rows: int = 1
    """Outputs that share a scale."""

    @property
    def number_name(self) -> str:
        """Names the numbers for people."""
        return f"{'fp' if self.is_float else 'int'}{self.bits}"

    def of_module(self, name: str) -> "QuantizationScheme | None":
        """Returns the scheme of one module, or None if it is not quantized. The first matching rule decides."""
        for pattern, overrides in self.rules:
            if re.match(pattern, name):
                return None if overrides is None else self._overridden(overrides)
        return self

    def _overridden(self, overrides: Mapping[str, Any]) -> "QuantizationScheme":
        group_size = overrides.get("group_size", self.group_size)
        return replace(
            self,
            bits=_checked_bits(overrides.get("bits", self.bits)),
            group_size=_group_size(group_size),
            symmetric=bool(overrides.get("sym", self.symmetric)),
        )


def read_scheme(folder: Path, config: Mapping[str, Any]) -> QuantizationScheme | None:
    """Reads the scheme of a model folder, or None for plain weights. Raises InvalidCheckpoint or Unsupported."""
    raw = config.get("quantization_config") or _read_old_file(folder)
    if not raw:
        return None
    method = raw.get("quant_method", "unknown")
    try:
        if method == "awq":
            return _awq(raw)
        if method == "gptq":
            return _gptq(raw)
        if method == "compressed-tensors":
            return _compressed_tensors(raw)
        if method == "fp8":
            return _fp8(raw)
        if method == "mxfp4":
            return QuantizationScheme("fp4-pack-quantized", 4, MXFP4_GROUP, symmetric=True, is_float=True)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, re.error) as error:
        if isinstance(error, (InvalidCheckpoint, Unsupported)):
            raise
        raise InvalidCheckpoint(f"{folder}: quantization_config is malformed: {error!r}") from error
    raise Unsupported(f"quantization {method} is not supported: only {', '.join(METHODS)}")


def _read_old_file(folder: Path) -> dict[str, Any] | None:
    for name, method in OLD_FILES.items():
        path = folder / name
        if path.is_file():
            try:
                return {"quant_method": method, **json.loads(path.read_text(encoding="utf-8"))}
            except (OSError, ValueError, TypeError) as error:
                raise InvalidCheckpoint(f"{path} cannot be read: {error}") from error
    return None


def _awq(raw: Mapping[str, Any]) -> QuantizationScheme:
    version = str(raw.get("version") or raw.get("format") or "gemm").lower()
    if version != "gemm":
        raise Unsupported(f"AWQ version {version!r} is not supported: only gemm; convert the checkpoint to gemm")
    bits = _checked_bits(raw.get("bits", raw.get("w_bit", 4)))
    if bits != 4:
        raise Unsupported(f"AWQ with {bits} bits is not supported: the format has 4")
    group_size = _group_size(raw.get("group_size", raw.get("q_group_size", 128)))
    return QuantizationScheme("awq", bits, group_size, symmetric=not raw.get("zero_point", True))


def _gptq(raw: Mapping[str, Any]) -> QuantizationScheme:
    layout = str(raw.get("checkpoint_format") or raw.get("format") or "gptq").lower()
    if layout not in ("gptq", "gptq_v2") or raw.get("is_marlin_format"):
        raise Unsupported(f"GPTQ layout {layout!r} is not supported: only gptq and gptq_v2")
    if str(raw.get("pack_dtype", "int32")).removeprefix("torch.") != "int32":
        raise Unsupported(f"GPTQ packed into {raw['pack_dtype']} is not supported: only int32")
    return QuantizationScheme(
        "gptq",
        _checked_bits(raw["bits"]),
        _group_size(raw.get("group_size", 128)),
        symmetric=bool(raw.get("sym", True)),
        zero_offset=1 if layout == "gptq" else 0,
        rules=tuple(_dynamic_rule(pattern, value) for pattern, value in (raw.get("dynamic") or {}).items()),
    )


def _dynamic_rule(pattern: str, value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    """Reads one of GPTQModel's rules: `-:pattern` excludes modules, `+:pattern` or a bare pattern overrides
    settings."""
    bare = pattern.removeprefix("+:").removeprefix("-:")
    re.compile(bare)
    return bare, None if pattern.startswith("-:") else value


def _compressed_tensors(raw: Mapping[str, Any]) -> QuantizationScheme:
    layout = raw.get("format")
    if layout not in ("pack-quantized", "int-quantized", *FLOAT_FORMATS):
        known = ", ".join(("pack-quantized", "int-quantized", *FLOAT_FORMATS))
        raise Unsupported(f"compressed-tensors {layout!r} is not supported: only {known}")
    groups = list(raw["config_groups"].values())
    if len(groups) != 1:
        raise Unsupported("compressed-tensors with several config_groups is not supported: only one")
    weights = groups[0]["weights"]
    if layout in FLOAT_FORMATS:
        return _compressed_floats(layout, weights)
    if weights.get("type", "int") != "int":
        raise Unsupported(f"compressed-tensors weights of type {weights['type']!r} are not supported: only int")
    if weights.get("strategy") not in ("group", "channel", "tensor"):
        raise Unsupported(f"compressed-tensors strategy {weights.get('strategy')!r} is not supported")
    group_size = _group_size(weights.get("group_size") or -1)
    bits = _checked_bits(weights["num_bits"])
    return QuantizationScheme("compressed-tensors", bits, group_size, bool(weights.get("symmetric", True)))


def _compressed_floats(layout: str, weights: Mapping[str, Any]) -> QuantizationScheme:
    method, bits = FLOAT_FORMATS[layout]
    if weights.get("type") != "float" or weights["num_bits"] != bits or not weights.get("symmetric", True):
        raise Unsupported(f"compressed-tensors {layout!r} is supported with symmetric floats of {bits} bits alone")
    rows, group_size = 1, _group_size(weights.get("group_size") or -1)
    if weights.get("strategy") == "block":
        rows, group_size = _block(weights["block_structure"])
    elif weights.get("strategy") not in ("group", "tensor_group", "channel", "tensor"):
        raise Unsupported(f"compressed-tensors strategy {weights.get('strategy')!r} is not supported")
    return QuantizationScheme(method, bits, group_size, symmetric=True, is_float=True, block_rows=rows)


def _fp8(raw: Mapping[str, Any]) -> QuantizationScheme:
    number = str(raw.get("fmt", "e4m3")).lower()
    if number not in ("e4m3", "float8_e4m3fn"):
        raise Unsupported(f"fp8 of {number!r} is not supported: only e4m3")
    if raw.get("weight_block_size") is None:
        raise Unsupported("fp8 without weight_block_size is not supported: only with a scale for each block")
    rows, group_size = _block(raw["weight_block_size"])
    return QuantizationScheme("fp8", 8, group_size, symmetric=True, is_float=True, block_rows=rows)


def _block(sizes: Any) -> tuple[int, int]:
    """Reads the outputs and inputs that share a scale."""
    rows, columns = (int(size) for size in sizes)
    if rows < 1 or columns < 1:
        raise InvalidCheckpoint(f"quantization_config: blocks have {rows} x {columns} numbers")
    return rows, columns


def _checked_bits(bits: Any) -> int:
    if bits not in SUPPORTED_BITS:
        raise Unsupported(f"quantization with {bits} bits is not supported: only {SUPPORTED_BITS}")
    return int(bits)


def _group_size(value: Any) -> int | None:
    size = int(-1 if value is None else value)
    if size == -1:
        return None
    if size < 1:
        raise InvalidCheckpoint(f"quantization_config: group_size is {size}")
    return size
