"""Tiny checkpoints whose projections are floating-point numbers of 8 and 4 bits, as llm-compressor and DeepSeek write
them. Written from the formats' descriptions, with torch's E4M3 and the numbers of E2M1 by name."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""Magnitudes of the codes 0 to 7 (OCP Microscaling Formats 1.0, table 5). With the fourth bit, they are negative."""
E4M3_MAX = 448.0
BLOCK = 32
"""Inputs and outputs of a block of fp8, and inputs of a group of MXFP4."""
NVFP4_GROUP = 16
Form = Literal["fp8", "float-quantized", "mxfp4-pack-quantized", "nvfp4-pack-quantized"]
FORMS: tuple[Form, ...] = ("fp8", "float-quantized", "mxfp4-pack-quantized", "nvfp4-pack-quantized")


def round_to_floats(folder: Path, form: Form) -> None:
    """Rounds the projections of a tiny checkpoint in place."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith("_proj.weight")]:
        rounded = ROUNDED[form](tensors.pop(f"{name}.weight").float())
        tensors |= {f"{name}.{part}": tensor.contiguous() for part, tensor in rounded.items()}
    save_file(tensors, path)
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": CONFIGS[form]}))


def fp8_blocks(weight: Tensor, rows: int = BLOCK, columns: int = BLOCK) -> dict[str, Tensor]:
    """Rounds to E4M3 with a scale for each block, of which the last ones may be smaller."""
    scales = torch.stack(
        [
            torch.stack([_largest(part) / E4M3_MAX for part in band.split(columns, dim=1)])
            for band in weight.split(rows, dim=0)
        ]
    )
    whole = scales.repeat_interleave(rows, 0)[: weight.shape[0]].repeat_interleave(columns, 1)[:, : weight.shape[1]]
    return {"weight": (weight / whole).to(torch.float8_e4m3fn), "weight_scale_inv": scales}


def fp8_rows(weight: Tensor) -> dict[str, Tensor]:
    """Rounds to E4M3 with a scale for each output."""
    scales = (weight.abs().amax(dim=1, keepdim=True) / E4M3_MAX).bfloat16()
    return {"weight": (weight / scales.float()).to(torch.float8_e4m3fn), "weight_scale": scales}


def mxfp4(weight: Tensor) -> dict[str, Tensor]:
    """Rounds to E2M1 in groups that share a power of two."""
    groups = weight.unflatten(1, (-1, BLOCK))
    exponents = groups.abs().amax(dim=2).clamp_min(1e-6).log2().floor() - 2
    codes = e2m1_codes(groups / exponents.exp2()[..., None]).flatten(1)
    return {"weight_packed": pairs(codes), "weight_scale": (exponents + 127).to(torch.uint8)}


def nvfp4(weight: Tensor) -> dict[str, Tensor]:
    """Rounds to E2M1 in groups with a scale in E4M3, which is divided by that of the tensor."""
    groups = weight.unflatten(1, (-1, NVFP4_GROUP))
    whole = E4M3_MAX * 6 / _largest(weight)
    scales = (groups.abs().amax(dim=2) / 6 * whole).to(torch.float8_e4m3fn)
    codes = e2m1_codes(groups / (scales.float() / whole).clamp_min(1e-9)[..., None]).flatten(1)
    return {"weight_packed": pairs(codes), "weight_scale": scales, "weight_global_scale": whole.reshape(1)}


def e2m1_codes(numbers: Tensor) -> Tensor:
    """The codes uint8 of the nearest numbers."""
    nearest = (numbers.abs()[..., None] - E2M1).abs().argmin(dim=-1)
    return (nearest | (numbers < 0) * 8).to(torch.uint8)


def pairs(codes: Tensor) -> Tensor:
    """Two codes to a byte, the first in the low bits."""
    return codes[:, ::2] | codes[:, 1::2] << 4


def _largest(part: Tensor) -> Tensor:
    return part.abs().amax().clamp_min(1e-6)


def _compressed(form: str, **weights: Any) -> Mapping[str, Any]:
    group = {"targets": ["Linear"], "weights": {"type": "float", "symmetric": True, **weights}}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "ignore": ["lm_head"],
        "config_groups": {"group_0": group},
    }


ROUNDED: Mapping[Form, Callable[[Tensor], dict[str, Tensor]]] = {
    "fp8": fp8_blocks,
    "float-quantized": fp8_rows,
    "mxfp4-pack-quantized": mxfp4,
    "nvfp4-pack-quantized": nvfp4,
}
CONFIGS: Mapping[Form, Mapping[str, Any]] = {
    "fp8": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [BLOCK, BLOCK]},
    "float-quantized": _compressed("float-quantized", num_bits=8, strategy="channel"),
    "mxfp4-pack-quantized": _compressed("mxfp4-pack-quantized", num_bits=4, strategy="group", group_size=BLOCK),
    "nvfp4-pack-quantized": _compressed(
        "nvfp4-pack-quantized", num_bits=4, strategy="tensor_group", group_size=NVFP4_GROUP
    ),
}
