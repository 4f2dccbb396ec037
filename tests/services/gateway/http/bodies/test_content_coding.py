"""Compressed bodies are unpacked within the limits of bodies; other codings are refused by name."""

import gzip
import json
import random
import time
import zlib
from collections.abc import Callable

import pytest
import zstandard
from tests.services.gateway.served_bridge import serving

from headrace.errors import InvalidRequest
from headrace.gateway.http.bodies.body_meter import SLICE_BYTES
from headrace.gateway.http.bodies.content_coding import MAX_MEMBERS, decoded

pytestmark = pytest.mark.anyio
BODY = json.dumps({"model": "m", "prompt": "x " * 50_000}).encode()


def bare_deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    (" GZIP ", lambda content: gzip.compress(content[:50]) + gzip.compress(content[50:])),
    ("deflate", zlib.compress),
    ("deflate", bare_deflate),
    ("zstd", zstandard.compress),
    ("zstd", lambda content: zstandard.compress(content[:50]) + zstandard.compress(content[50:])),
    ("identity", bytes),
]


@pytest.mark.parametrize(("coding", "pack"), PACKERS)
async def test_a_compressed_body_is_unpacked(coding: str, pack: Callable[[bytes], bytes]) -> None:
    async with serving() as gateway:
        status, content = await gateway.post(pack(BODY), headers=f"content-encoding: {coding}\r\n")
        assert (status, content["object"]) == (200, "text_completion")


@pytest.mark.parametrize("coding", ["br", "compress", "gzip, gzip", "aws-chunked", "x" * 5000])
async def test_another_coding_is_refused_by_name(coding: str) -> None:
    async with serving() as gateway:
        status, error = await gateway.post(BODY, headers=f"content-encoding: {coding}\r\n")
        assert (status, error["param"]) == (415, "content-encoding")
        assert coding[:20] in error["message"]
        assert "gzip, deflate, zstd" in error["message"]


@pytest.mark.parametrize(("coding", "pack"), PACKERS[:-1])
async def test_the_limits_hold_for_the_body_that_is_unpacked(coding: str, pack: Callable[[bytes], bytes]) -> None:
    async with serving(max_body_bytes=200_000) as gateway:
        headers = f"content-encoding: {coding}\r\n"
        status, error = await gateway.post(pack(b" " * 100_000_000), headers=headers)
        assert (status, "larger than 200000 bytes" in error["message"]) == (413, True)
        status, error = await gateway.post(pack(b"[" * 150_000), headers=headers)
        assert (status, "levels deep" in error["message"]) == (400, True)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("body", [b"{}", BODY, b"\x1f\x8b", random.Random(1).randbytes(1000)])
async def test_a_body_that_is_not_what_it_says_is_refused(coding: str, body: bytes) -> None:
    async with serving() as gateway:
        status, error = await gateway.post(body, headers=f"content-encoding: {coding}\r\n")
        assert (status, error["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(("coding", "pack"), PACKERS[:-1])
def test_pieces_are_small(coding: str, pack: Callable[[bytes], bytes]) -> None:
    pieces = list(decoded(pack(BODY * 20), coding.strip().lower()))
    assert b"".join(pieces) == BODY * 20
    assert max(map(len, pieces)) <= SLICE_BYTES


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_body_that_is_cut_off_is_refused(coding: str, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(InvalidRequest, match="ends too early"):
        list(decoded(pack(BODY)[:-5], coding))


def test_a_million_empty_parts_take_no_time() -> None:
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="something follows"):
        list(decoded(gzip.compress(b"") * 400_000, "gzip"))
    list(decoded(zstandard.compress(b"") * 800_000, "zstd"))
    with pytest.raises(InvalidRequest):
        list(decoded(gzip.compress(b"") * (MAX_MEMBERS + 1), "gzip"))
    assert time.process_time() - began < 1.0
