"""Each type of GGUF tensor, as our reader gives it: bit-equal to the `gguf` package and to the format's description.

The functions below are written from the block structs and dequantize_row functions of ggml-quants.c, one value at a
time, in fp32.
"""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_files import close_writer, open_writer, random_blocks

from headrace.engine.checkpoints.gguf.gguf_file import GgufFile
from headrace.errors import InvalidCheckpoint, Unsupported

ROWS, COLUMNS = 6, 512
NAME = "token_embd.weight"
CONFIG = {
    "model_type": "llama",
    "max_position_embeddings": 64,
    "hidden_size": COLUMNS,
    "num_hidden_layers": 1,
    "intermediate_size": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}
F = np.float32
Block = np.ndarray


def fp16(block: Block, offset: int) -> np.float32:
    return F(block[offset : offset + 2].view(np.float16)[0])


def q4_0(block: Block) -> list[np.float32]:
    d, qs = fp16(block, 0), [int(byte) for byte in block[2:18]]
    return [d * F((q & 15) - 8) for q in qs] + [d * F((q >> 4) - 8) for q in qs]


def q4_1(block: Block) -> list[np.float32]:
    d, m, qs = fp16(block, 0), fp16(block, 2), [int(byte) for byte in block[4:20]]
    return [d * F(q & 15) + m for q in qs] + [d * F(q >> 4) + m for q in qs]


def q5_0(block: Block) -> list[np.float32]:
    d, qh, qs = fp16(block, 0), int(block[2:6].view(np.uint32)[0]), [int(byte) for byte in block[6:22]]
    low = [d * F(((q & 15) | (qh >> j & 1) << 4) - 16) for j, q in enumerate(qs)]
    return low + [d * F(((q >> 4) | (qh >> (j + 16) & 1) << 4) - 16) for j, q in enumerate(qs)]


def q8_0(block: Block) -> list[np.float32]:
    return [fp16(block, 0) * F(q) for q in block[2:34].view(np.int8)]


def scale_and_min(j: int, packed: list[int]) -> tuple[np.float32, np.float32]:
    """Scale and minimum of a group, six bits each: get_scale_min_k4."""
    if j < 4:
        return F(packed[j] & 63), F(packed[j + 4] & 63)
    scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4
    return F(scale), F((packed[j + 4] >> 4) | (packed[j] >> 6) << 4)


def q4_k(block: Block) -> list[np.float32]:
    d, dmin = fp16(block, 0), fp16(block, 2)
    packed, qs = [int(byte) for byte in block[4:16]], [int(byte) for byte in block[16:144]]
    values = []
    for chunk in range(4):
        for half in range(2):
            scale, low = scale_and_min(2 * chunk + half, packed)
            codes = [qs[32 * chunk + index] >> 4 * half & 15 for index in range(32)]
            values += [d * scale * F(code) - dmin * low for code in codes]
    return values


def q5_k(block: Block) -> list[np.float32]:
    d, dmin = fp16(block, 0), fp16(block, 2)
    packed, qh, qs = ([int(byte) for byte in block[a:b]] for a, b in ((4, 16), (16, 48), (48, 176)))
    values = []
    for chunk in range(4):
        for half in range(2):
            group = 2 * chunk + half
            scale, low = scale_and_min(group, packed)
            for index in range(32):
                code = (qs[32 * chunk + index] >> 4 * half & 15) + 16 * (qh[index] >> group & 1)
                values.append(d * scale * F(code) - dmin * low)
    return values


def q6_k(block: Block) -> list[np.float32]:
    ql, qh = [int(byte) for byte in block[:128]], [int(byte) for byte in block[128:192]]
    scales, d = block[192:208].view(np.int8), fp16(block, 208)
    values = [F(0)] * 256
    for half in range(2):
        for index in range(32):
            for part in range(4):
                low = ql[64 * half + index + 32 * (part % 2)] >> 4 * (part // 2) & 15
                high = qh[32 * half + index] >> 2 * part & 3
                scale = F(scales[8 * half + index // 16 + 2 * part])
                values[128 * half + 32 * part + index] = d * scale * F((low | high << 4) - 32)
    return values


WRITTEN_FROM_THE_DESCRIPTION: dict[Kind, Callable[[Block], list[np.float32]]] = {
    Kind.Q4_0: q4_0,
    Kind.Q4_1: q4_1,
    Kind.Q5_0: q5_0,
    Kind.Q8_0: q8_0,
    Kind.Q4_K: q4_k,
    Kind.Q5_K: q5_k,
    Kind.Q6_K: q6_k,
}


def write(path: Path, data: np.ndarray, kind: Kind) -> Path:
    writer = open_writer(path, CONFIG)
    writer.add_tensor(NAME, data, raw_dtype=kind)
    close_writer(writer)
    return path


def read(path: Path) -> np.ndarray:
    found = GgufFile(path).read("model.embed_tokens.weight", (ROWS, COLUMNS), torch.float32, torch.device("cpu"))
    return found.numpy()


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.shape == expected.shape and bool((found.view(np.uint32) == expected.view(np.uint32)).all())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", WRITTEN_FROM_THE_DESCRIPTION, ids=lambda kind: kind.name)
def test_blocks_are_what_the_package_and_the_description_say(tmp_path: Path, kind: Kind, seed: int) -> None:
    data = random_blocks(kind, ROWS, COLUMNS, seed)
    found = read(write(tmp_path / "m.gguf", data, kind))
    assert same_bits(found, gguf.dequantize(data, kind))
    size = gguf.GGML_QUANT_SIZES[kind][1]
    described = [value for block in data.reshape(-1, size) for value in WRITTEN_FROM_THE_DESCRIPTION[kind](block)]
    # + 0 because a code of zero times a scale is -0 in one writing and 0 in another.
    assert same_bits(found + F(0), np.array(described, dtype=F).reshape(ROWS, COLUMNS) + F(0))


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.F32], ids=lambda kind: kind.name)
def test_plain_numbers_are_exact(tmp_path: Path, kind: Kind) -> None:
    dtype = {Kind.F16: torch.float16, Kind.BF16: torch.bfloat16, Kind.F32: torch.float32}[kind]
    values = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)).to(dtype)
    stored = values.view(torch.int16 if dtype.itemsize == 2 else torch.int32).numpy()
    view = {Kind.F16: np.float16, Kind.BF16: np.uint8, Kind.F32: np.float32}[kind]
    assert same_bits(read(write(tmp_path / "m.gguf", stored.view(view), kind)), values.float().numpy())


@pytest.mark.parametrize("kind", WRITTEN_FROM_THE_DESCRIPTION, ids=lambda kind: kind.name)
def test_scales_that_are_no_numbers_are_refused_by_name(tmp_path: Path, kind: Kind) -> None:
    for bad in (np.inf, np.nan):
        data = random_blocks(kind, ROWS, COLUMNS, 0)
        offset = 208 if kind == Kind.Q6_K else 0
        data[1, offset : offset + 2] = np.array([bad], np.float16).view(np.uint8)
        with pytest.raises(InvalidCheckpoint, match=f"tensor {NAME} holds values that are not finite"):
            read(write(tmp_path / "m.gguf", data, kind))


def test_types_that_the_package_cannot_read_are_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", np.zeros((ROWS, COLUMNS), np.int32), Kind.I32)
    with pytest.raises(Unsupported, match=f"{NAME} of type I32 cannot be read"):
        read(path)


def test_shapes_are_checked_by_name(tmp_path: Path) -> None:
    file = GgufFile(write(tmp_path / "m.gguf", random_blocks(Kind.Q4_K, ROWS, COLUMNS, 0), Kind.Q4_K))
    with pytest.raises(InvalidCheckpoint, match=rf"{NAME} has shape \(6, 512\).*imply \(7, 512\)"):
        file.read("model.embed_tokens.weight", (7, COLUMNS), torch.float32, torch.device("cpu"))


@pytest.mark.parametrize(
    ("key", "add", "named"),
    [
        ("block_count", lambda writer, key: writer.add_string(key, "many"), "'many', not a number"),
        ("embedding_length", lambda writer, key: writer.add_float32(key, float("nan")), "nan, not a number"),
        ("attention.head_count", lambda writer, key: writer.add_array(key, [4, 4]), "not a number"),
        ("context_length", lambda writer, key: writer.add_bool(key, True), "True, not a number"),
        ("context_length", None, "has no metadata llama.context_length"),
    ],
)
def test_metadata_that_is_no_number_is_refused_by_name(
    tmp_path: Path, key: str, add: Callable[[gguf.GGUFWriter, str], None] | None, named: str
) -> None:
    writer = open_writer(tmp_path / "m.gguf", CONFIG)
    del writer.kv_data[0][f"llama.{key}"]
    if add is not None:
        add(writer, f"llama.{key}")
    writer.add_tensor(NAME, np.zeros((ROWS, COLUMNS), np.float32))
    close_writer(writer)
    with pytest.raises(InvalidCheckpoint, match=named):
        GgufFile(tmp_path / "m.gguf").config()
