"""Header of a GGUF file: what the `gguf` package writes and reads, and files that lie."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from headrace.gguf_text.gguf_header import GgufHeader

KINDS = gguf.GGMLQuantizationType


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a value of every type that the package writes, and three tensors."""
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    values: list[tuple[str, Callable[[str, Any], None], Any]] = [
        ("u8", writer.add_uint8, 200),
        ("i8", writer.add_int8, -3),
        ("u16", writer.add_uint16, 60_000),
        ("i16", writer.add_int16, -300),
        ("u32", writer.add_uint32, 1 << 31),
        ("i32", writer.add_int32, -(1 << 30)),
        ("u64", writer.add_uint64, 1 << 63),
        ("i64", writer.add_int64, -(1 << 62)),
        ("f32", writer.add_float32, 0.1),
        ("f64", writer.add_float64, 0.1),
        ("bool", writer.add_bool, True),
        ("text", writer.add_string, "größer"),
        ("texts", writer.add_array, ["", "a", "▁b"]),
        ("numbers", writer.add_array, [1, -2, 3]),
        ("reals", writer.add_array, [0.5, 0.25]),
        ("switches", writer.add_array, [True, False]),
    ]
    for name, add, value in values:
        add(f"test.{name}", value)
    writer.add_custom_alignment(64)
    writer.add_tensor("plain", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("blocks", np.zeros((4, 144), np.uint8), raw_dtype=KINDS.Q4_K)
    writer.add_tensor("rare", np.zeros((2, 136), np.uint8), raw_dtype=KINDS.IQ4_XS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_values_and_tensors_are_those_that_the_package_reads(file: Path) -> None:
    header, reader = GgufHeader(file), gguf.GGUFReader(file)
    keys = [name for name in reader.fields if not name.startswith("GGUF.")]
    assert len(keys) == 18
    assert {key: header.get(key) for key in keys} == {key: reader.fields[key].contents() for key in keys}
    assert [type(header.get(f"test.{name}")) for name in ("bool", "f32", "u8")] == [bool, float, int]
    assert header.get("test.missing", 7) == 7
    for tensor in reader.tensors:
        found = header.tensors[tensor.name]
        assert (found.kind, found.offset, found.byte_count) == (
            tensor.tensor_type.name, tensor.data_offset, tensor.n_bytes
        )  # fmt: skip
        assert found.shape == tuple(reversed(tensor.shape.tolist()))


def test_a_file_that_ends_anywhere_is_refused(file: Path, tmp_path: Path) -> None:
    whole, cut = file.read_bytes(), tmp_path / "cut.gguf"
    end = max(tensor.offset + tensor.byte_count for tensor in GgufHeader(file).tensors.values())
    for size in range(end):
        cut.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"ends within|begin with GGUF|empty file"):
            GgufHeader(cut)


def changed(whole: bytes, place: bytes, skip: int, other: bytes) -> bytes:
    """Returns the file with other bytes, `skip` bytes after the first `place`."""
    at = whole.index(place) + len(place) + skip
    return whole[:at] + other + whole[at + len(other) :]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda whole: b"GGML" + whole[4:], "begin with GGUF"),
        (lambda whole: whole[:4] + struct.pack(">I", 3) + whole[8:], "little-endian"),
        (lambda whole: whole[:4] + struct.pack("<I", 1) + whole[8:], "version 1"),
        (lambda whole: changed(whole, b"test.u8", 0, struct.pack("<I", 77)), "type 77"),
        (lambda whole: changed(whole, b"test.texts", 0, struct.pack("<II", 9, 9)), "type 9"),
        (lambda whole: changed(whole, b"test.text", 4, struct.pack("<Q", 1 << 63)), "ends within"),
        (lambda whole: changed(whole, b"test.texts", 8, struct.pack("<Q", 1 << 60)), "ends within"),
        (lambda whole: changed(whole, b"test.numbers", 8, struct.pack("<Q", 1 << 60)), "ends within"),
        (lambda whole: whole.replace(b"test.i8", b"test.u8", 1), "test.u8 twice"),
        (lambda whole: changed(whole, b"general.alignment", 4, struct.pack("<I", 48)), "alignment is 48"),
        (lambda whole: changed(whole, b"plain", 0, struct.pack("<I", 1 << 30)), "dimensions"),
        (lambda whole: changed(whole, b"blocks", 4, struct.pack("<Q", 255)), "not made of blocks of 256"),
        (lambda whole: changed(whole, b"blocks", 20, struct.pack("<I", 999)), "999"),
        (lambda whole: changed(whole, b"blocks", 24, struct.pack("<Q", 1 << 63)), "ends within tensor blocks"),
    ],
)
def test_files_that_lie_are_refused_by_name(
    file: Path, tmp_path: Path, damage: Callable[[bytes], bytes], named: str
) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=named):
        GgufHeader(bad)
