"""Prompts whose KV blocks a disk has are continued from there, with the tokens that they would have had."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.libs.engine.tiny_models import make_prompts
from tests.services.worker.transfer.test_block_transfer import BLOCK_COUNT, BLOCK_SIZE, SECONDS, Worker, load, serve
from tests.services.worker.transfer.test_block_transfer import folder as folder

from headrace.worker.transfer.fetching import kept_source
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.kept_writer import KeptWriter

pytestmark = pytest.mark.anyio

WHOLE = BLOCK_COUNT * BLOCK_SIZE


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def kept_of(worker: Worker) -> KeptBlocks:
    (keeper,) = worker.runtime.transfers.keepers
    assert isinstance(keeper.sink, KeptWriter)
    return keeper.sink.kept


async def until_kept(worker: Worker, count: int) -> None:
    """Waits until so many blocks are on the disk."""
    deadline = time.monotonic() + SECONDS
    while len(kept_of(worker)) < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def first_life(folder: Path, kv_folder: Path) -> list[int]:
    """Tokens of the prompt, whose blocks are on the disk when the worker has ended."""
    async with AsyncExitStack() as life:
        worker = await serve(load(folder), life, kv_folder=kv_folder)
        tokens, cached = await worker.run(salt="t")
        assert cached == 0
        await until_kept(worker, BLOCK_COUNT)
    return tokens


def damage(folder: Path, seed: int) -> None:
    """Changes some places of the file, and one in the last slots, which are filled first."""
    (path,) = folder.iterdir()
    dice, data = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(4):
        at = dice.randrange(len(data) // 8) * 8
        data[at : at + 8] = dice.randbytes(8)
    data[-1 - seed * 1000] ^= 1
    path.write_bytes(data)


async def test_a_prompt_is_there_after_a_restart_and_not_for_another_tenant(
    folder: Path, tmp_path: Path, stack: AsyncExitStack
) -> None:
    expected = await first_life(folder, tmp_path)
    worker = await serve(load(folder), stack, kv_folder=tmp_path)
    assert await worker.run(salt="other") == (expected, 0)
    assert await worker.run(salt="t") == (expected, WHOLE)
    assert await worker.run(salt="t") == (expected, WHOLE)
    await worker.settle()


async def test_a_prompt_that_memory_had_no_room_for_comes_from_the_disk(
    folder: Path, tmp_path: Path, stack: AsyncExitStack
) -> None:
    worker = await serve(load(folder, block_count=14, max_model_length=192), stack, kv_folder=tmp_path)
    prompts = make_prompts((150, 150, 150), seed=11)
    expected = []
    for number, prompt in enumerate(prompts, 1):
        expected.append((await worker.run(prompt=prompt))[0])
        await until_kept(worker, number * BLOCK_COUNT)
    for _ in range(2):
        for prompt, tokens in zip(prompts, expected, strict=True):
            found, cached = await worker.run(prompt=prompt)
            assert found == tokens
            assert cached == WHOLE
    await worker.settle()


@pytest.mark.parametrize("seed", range(3))
async def test_damaged_blocks_are_computed_again(
    seed: int, folder: Path, tmp_path: Path, stack: AsyncExitStack
) -> None:
    expected = await first_life(folder, tmp_path)
    damage(tmp_path, seed)
    worker = await serve(load(folder), stack, kv_folder=tmp_path)
    tokens, cached = await worker.run(salt="t")
    assert tokens == expected
    assert cached < WHOLE
    await worker.settle()


async def test_a_disk_that_hangs_delays_one_request_and_is_left_alone(
    folder: Path, tmp_path: Path, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await first_life(folder, tmp_path)
    monkeypatch.setattr(kept_source, "PATIENCE_SECONDS", 0.05)
    asked = []

    def hang(self: KeptBlocks, names: Sequence[bytes]) -> list[bytes]:
        asked.append(names)
        time.sleep(0.3)
        return []

    monkeypatch.setattr(KeptBlocks, "get", hang)
    worker = await serve(load(folder), stack, kv_folder=tmp_path)
    assert await worker.run(salt="t") == (expected, 0)
    prompts = make_prompts((150,), seed=12)
    await worker.run(salt="t", prompt=prompts[0])
    assert len(asked) == 1
    await worker.settle()


async def test_a_request_that_ends_while_its_blocks_are_read_leaves_nothing(
    folder: Path, tmp_path: Path, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await first_life(folder, tmp_path)
    read = KeptBlocks.get

    def slowly(self: KeptBlocks, names: Sequence[bytes]) -> list[bytes]:
        time.sleep(0.1)
        return read(self, names)

    monkeypatch.setattr(KeptBlocks, "get", slowly)
    worker = await serve(load(folder), stack, kv_folder=tmp_path)
    name = await worker.ask(salt="t")
    worker.runtime.cancel(name, 1)
    await worker.settle()
    assert (await worker.run(salt="t"))[0] == expected


async def test_the_engine_is_asked_seldom_under_load(folder: Path, tmp_path: Path, stack: AsyncExitStack) -> None:
    """Nothing waits to be written for ever, and no block is written twice."""
    worker = await serve(load(folder), stack, kv_folder=tmp_path)
    prompts = make_prompts((150,) * 6, seed=13)
    names = [await worker.ask(prompt=prompt) for prompt in prompts]
    await asyncio.gather(*(worker.tokens(name) for name in names[:1]))
    await worker.settle()
    await until_kept(worker, 6 * BLOCK_COUNT)
    assert not worker.runtime.transfers.keepers[0]._pending
