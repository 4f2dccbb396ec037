"""Vectors as the API writes them."""

import base64
import json
import math
import struct

import msgspec
import pytest

from headrace.gateway.api.openai.embedding_format import encoded, kept

VALUES = struct.unpack("<4f", struct.pack("<4f", 0.1, -1e-38, 3.0, 2**-140))
"""Values in fp32, a subnormal one included."""


def test_both_encodings_keep_every_bit() -> None:
    assert tuple(json.loads(msgspec.json.encode(encoded(VALUES, "float")))) == VALUES
    text = json.loads(msgspec.json.encode(encoded(VALUES, "base64")))
    assert struct.unpack("<4f", base64.b64decode(text)) == VALUES


def test_what_is_kept_has_unit_length() -> None:
    found = kept([3.0, 4.0, 12.0], 2)
    assert found == struct.unpack("<2f", struct.pack("<2f", 0.6, 0.8))
    assert math.hypot(*found) == pytest.approx(1, abs=1e-7)


def test_all_elements_stay_as_they_are() -> None:
    assert kept([3.0, 4.0], None) == [3.0, 4.0]
    assert kept([3.0, 4.0], 2) == [3.0, 4.0]


def test_a_vector_of_zeros_stays_one() -> None:
    assert list(kept([0.0, 0.0, 1.0], 2)) == [0.0, 0.0]
