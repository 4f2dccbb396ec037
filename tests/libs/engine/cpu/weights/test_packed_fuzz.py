"""Packed weights are used or made again, whatever their file holds: also where its digests fit, but its header
describes other weights than those of the model. `make fuzz` damages ten thousand files."""

import hashlib
import os
import random
from pathlib import Path

import pytest
from tests.libs.engine.damaged_bytes import damage, resettle
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family

from headrace.engine.cpu.weights import packed_cache
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.memory.aligned import aligned

pytestmark = needs_kernels

CASES = int(os.environ.get("HEADRACE_FUZZ_CASES", "150"))


def resealed(content: bytes, generator: random.Random) -> bytes:
    """Puts other values into the header, with the digest that fits them."""
    magic, _, line, _ = content.split(b"\n", 3)
    start = aligned(sum(len(part) + 1 for part in content.split(b"\n", 3)[:3]))
    changed = resettle(line, generator) + b"\n"
    head = magic + b"\n" + hashlib.blake2b(changed, digest_size=32).hexdigest().encode() + b"\n" + changed
    return head + b"\0" * (aligned(len(head)) - len(head)) + content[start:]


@pytest.mark.slow
@pytest.mark.timeout(max(300, CASES))
def test_a_damaged_file_changes_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    folder, cache = tmp_path / "model", tmp_path / "cache"
    make_family(folder, "llama", hidden_size=64, intermediate_size=96)

    def generate() -> list[int]:
        config = engine_config(precision="int4", block_count=4, thread_count=1, packed_folder=cache)
        engine = load_text_engine(folder, config)
        try:
            return run(engine, request("r", (1, 2, 3), max_tokens=4, temperature=0, ignore_eos=True))["r"]
        finally:
            engine.close()

    expected = generate()
    (file,) = cache.glob("*.packed")
    original = file.read_bytes()
    assert resealed(original, random.Random(0)) != original
    for case in range(CASES):
        generator = random.Random(case)
        changed = damage(original, len(original), generator) if case % 3 == 0 else resealed(original, generator)
        file.unlink(missing_ok=True)
        file.write_bytes(changed)
        file.chmod(0o600)
        assert generate() == expected, case
