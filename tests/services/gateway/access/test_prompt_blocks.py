"""Ids of the blocks of prompts: equal where prompts begin alike, and of no use without the key."""

import asyncio
import json
from pathlib import Path

import pytest

from headrace.access.usage_record import from_line
from headrace.errors import ConfigError
from headrace.gateway.access.account import Account
from headrace.gateway.access.bookkeeper import Bookkeeper
from headrace.gateway.access.prompt_blocks import BLOCK_TOKENS, KEY_NAME, PromptBlocks
from headrace.gateway.access.usage_book import UsageBook
from headrace.scheduler.simulation.trace_file import read_trace

PROMPT = list(range(3 * BLOCK_TOKENS + 7))


def test_prompts_that_begin_alike_share_ids_up_to_where_they_differ() -> None:
    blocks = PromptBlocks(b"k" * 32)
    whole = blocks.ids("t", "m", PROMPT)
    assert len(whole) == len(set(whole)) == 3
    changed = [*PROMPT[: BLOCK_TOKENS + 5], 9, *PROMPT[BLOCK_TOKENS + 6 :]]
    other = blocks.ids("t", "m", changed)
    assert other[0] == whole[0]
    assert not set(other[1:]) & set(whole)
    assert blocks.ids("t", "m", PROMPT[: 2 * BLOCK_TOKENS]) == whole[:2]
    assert blocks.ids("t", "m", PROMPT[: BLOCK_TOKENS - 1]) == ()


def test_tenants_models_and_keys_share_nothing() -> None:
    seen = [
        PromptBlocks(key * 32).ids(tenant, model, PROMPT)
        for key, tenant, model in ((b"k", "t", "m"), (b"k", "u", "m"), (b"k", "t", "n"), (b"l", "t", "m"))
    ]
    assert len({each for ids in seen for each in ids}) == 12


def test_gateways_of_one_folder_share_a_key_that_only_the_user_can_read(tmp_path: Path) -> None:
    first, second = PromptBlocks.open(tmp_path), PromptBlocks.open(tmp_path)
    assert first.ids("t", "m", PROMPT) == second.ids("t", "m", PROMPT)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="no key of 32 bytes"):
        PromptBlocks.open(tmp_path)


def test_a_record_tells_the_blocks_and_the_simulator_reads_them(tmp_path: Path) -> None:
    def open_account(keeper: Bookkeeper) -> Account:
        return keeper.open(None, "t", "r", "m", lambda _: None)

    blocks = PromptBlocks.open(tmp_path)
    book = UsageBook(tmp_path, "gateway")
    for keeper in (Bookkeeper(book=book, blocks=blocks), Bookkeeper(book=book)):
        account = open_account(keeper)
        account.note_prompt(PROMPT)
        asyncio.run(account.reserve(len(PROMPT), 5))
        account.add(5)
        account.finish()
    book.close()
    (file,) = (path for path in tmp_path.iterdir() if path.name != KEY_NAME)
    told, silent = file.read_bytes().splitlines(keepends=True)
    assert json.loads(told)["hash_ids"] == list(blocks.ids("t", "m", PROMPT))
    assert "hash_ids" not in json.loads(silent)
    assert from_line(told) is not None
    arrivals = read_trace(file).arrivals
    assert [arrival.block_ids for arrival in arrivals] == [blocks.ids("t", "m", PROMPT), ()]
