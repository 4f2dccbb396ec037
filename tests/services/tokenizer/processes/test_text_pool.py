"""Texts and conversations that take long: each ends in time, and the event loop and other requests go on."""

import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.demo_model import CHECKPOINT
from headrace.domain.conversation import Conversation
from headrace.domain.encoded import Encoded
from headrace.domain.message import Message
from headrace.domain.to_encode import ConversationToEncode, TextToEncode
from headrace.errors import InvalidRequest, Overloaded
from headrace.tokenizer.processes import text_pool
from headrace.tokenizer.processes.text_pool import TextPool
from headrace.tokenizer.servicer import TokenizerServicer
from headrace.tokenizer.text.text_model import TextModel
from headrace.tokenizer.text_source import TextSource
from headrace.v1 import tokenizer_pb2 as pb

pytestmark = pytest.mark.anyio
PATIENCE = 30.0
MODEL = TextModel("m", CHECKPOINT)
HELLO = Conversation((Message("user", "hello"),))
SLOW = Conversation((Message("user", "slow"),))
LOOP = "{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}"
SLOW_WORD = "{% if messages[0].content == 'slow' %}" + LOOP + "{% endif %}{{ messages[0].content }}"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


on_uvloop = pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["uvloop"])
"""Marks tests of what a process makes of a text, whichever loop waits for it: they take the one that services have."""


def folder_with(tmp_path: Path, template: str) -> Path:
    for name in ("tokenizer.json", "config.json", "generation_config.json"):
        shutil.copy(CHECKPOINT / name, tmp_path / name)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return tmp_path


@contextlib.asynccontextmanager
async def pool_of(folder: Path = CHECKPOINT, size: int = 1, **limits: Any) -> AsyncIterator[TextPool]:
    pool = TextPool({"m": TextSource(folder)}, size, **({"template_seconds": 0.3, "job_seconds": PATIENCE} | limits))
    try:
        yield pool
    finally:
        pool.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it is another task's doing
        await asyncio.sleep(0)


@pytest.mark.process
async def test_a_conversation_has_the_tokens_of_its_rendering() -> None:
    async with pool_of() as pool:
        token_ids = (await pool.encode(ConversationToEncode("m", HELLO))).token_ids
    assert token_ids == MODEL.encode(MODEL.render(HELLO), add_special_tokens=False)


ENDLESS = [
    (LOOP, "0.3 s"),
    ("{% macro f(n) %}{% for i in range(n) %}{{ f(n) }}{% endfor %}{% endmacro %}{{ f(2) }}", "recursion"),
    ("{% for i in range(10**9) %}x{% endfor %}", "Range too big"),
    ("{{ 'x' * 10 ** 10 }}", "bytes of memory"),
    ("{{ 'x'|center(10 ** 10) }}", "bytes of memory"),
    ("{% set x = 'a' * 900000000 %}", "bytes of memory"),
    (
        "{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        r"bytes of memory|0\.3 s",
    ),
    ("{{ 9 ** (9 ** 9) }}", "power"),
    ("{{ 1 / 0 }}", "zero"),
    ("{{ none + 'a' }}", "unsupported operand"),
    ("{{ 'a'|nofilter }}", "nofilter"),
]
"""Templates, and what is said of them."""


@on_uvloop
@pytest.mark.process
async def test_a_template_without_an_end_is_refused_and_the_next_one_works(tmp_path: Path) -> None:
    """All in one process, which none of them ends."""
    sources = {}
    for number, (template, _) in enumerate(ENDLESS):
        folder = tmp_path / str(number)
        folder.mkdir()
        sources[template] = TextSource(
            folder_with(folder, "{% if messages[0].content == 'slow' %}" + template + "{% endif %}fine")
        )
    pool = TextPool(sources, 1, template_seconds=0.3, job_seconds=PATIENCE)
    try:
        processes = set()
        for template, says in ENDLESS:
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(InvalidRequest, match=says) as refused:
                    await pool.encode(ConversationToEncode(template, SLOW))
                assert refused.value.param == "messages", template
                processes.add(pool._processes[0].process)
                if "nofilter" not in template:
                    assert (await pool.encode(ConversationToEncode(template, HELLO))).token_ids == MODEL.encode(
                        "fine", add_special_tokens=False
                    ), template
                processes.add(pool._processes[0].process)
        assert len(processes) == 1
    finally:
        pool.close()


@pytest.mark.process
async def test_what_never_returns_to_python_is_ended_with_its_process(tmp_path: Path) -> None:
    # Long division of numbers with millions of digits is one step of the interpreter.
    template = "{% set n = namespace(x=9**1000) %}{% for i in range(40) %}{% set n.x = n.x * n.x %}{% endfor %}"
    folder = folder_with(tmp_path, "{% if messages[0].content == 'slow' %}" + template + "{% endif %}fine")
    async with pool_of(folder, job_seconds=3.0, template_seconds=1.0) as pool, asyncio.timeout(PATIENCE):
        await pool.encode(ConversationToEncode("m", HELLO))
        began = time.monotonic()
        with pytest.raises(InvalidRequest, match=r"job_seconds|template_seconds|memory"):
            await pool.encode(ConversationToEncode("m", SLOW))
        assert time.monotonic() - began < 10
        assert (await pool.encode(ConversationToEncode("m", HELLO))).token_ids


@pytest.mark.process
async def test_a_slow_conversation_holds_up_neither_the_loop_nor_other_texts(tmp_path: Path) -> None:
    async with pool_of(folder_with(tmp_path, SLOW_WORD), size=2, template_seconds=3.0) as pool:
        servicer = TokenizerServicer({"m": MODEL}, pool, 10)
        await asyncio.gather(*(pool.encode(TextToEncode("m", "both are there " * 20)) for _ in range(8)))
        slow = asyncio.create_task(pool.encode(ConversationToEncode("m", SLOW)))
        async with asyncio.timeout(PATIENCE):
            await until(lambda: bool(pool._running))
            text = "a text that is longer than ten characters"
            encoded = await servicer.Encode(pb.EncodeRequest(model="m", text=text), None)  # type: ignore[arg-type]
            ids = list(encoded.token_ids) * 100
            decoded = await servicer.Decode(pb.DecodeRequest(model="m", token_ids=ids), None)  # type: ignore[arg-type]
        assert text in decoded.text
        assert not slow.done()
        with pytest.raises(InvalidRequest):
            await slow


@pytest.mark.process
async def test_who_leaves_the_queue_frees_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_pool, "MAX_WAITING_JOBS", 2)
    async with pool_of(folder_with(tmp_path, SLOW_WORD)) as pool, asyncio.timeout(PATIENCE):
        slow = [asyncio.create_task(pool.encode(ConversationToEncode("m", SLOW))) for _ in range(3)]
        await until(lambda: pool._waiting_jobs == 2)
        with pytest.raises(Overloaded):
            await pool.encode(TextToEncode("m", "one too many"))
        slow[2].cancel()
        await asyncio.wait({slow[2]})
        assert await pool.encode(TextToEncode("m", "hello")) == Encoded(MODEL.encode("hello", True))
        assert [type(result) for result in await asyncio.gather(*slow[:2], return_exceptions=True)] == [
            InvalidRequest
        ] * 2
        assert (pool._waiting_jobs, pool._waiting_characters) == (0, 0)


@pytest.mark.process
async def test_characters_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_pool, "MAX_WAITING_CHARACTERS", 1_000_000)
    async with pool_of() as pool, asyncio.timeout(PATIENCE):
        running = [asyncio.create_task(pool.encode(TextToEncode("m", "word " * 150_000))) for _ in range(2)]
        await until(lambda: pool._waiting_jobs == 1)
        with pytest.raises(Overloaded):
            await pool.encode(TextToEncode("m", "word " * 150_000))
        assert all(encoded.token_ids for encoded in await asyncio.gather(*running))


@pytest.mark.process
async def test_a_process_that_dies_is_replaced() -> None:
    async with pool_of() as pool, asyncio.timeout(PATIENCE):
        assert (await pool.encode(TextToEncode("m", "hello"))).token_ids
        process = pool._processes[0].process
        assert process is not None
        process.kill()
        process.join()
        assert await pool.encode(TextToEncode("m", "hello")) == Encoded(MODEL.encode("hello", True))


async def test_whoever_asks_at_the_same_time_gets_the_same_vocabulary() -> None:
    servicer = TokenizerServicer({"m": MODEL}, None, 10)  # type: ignore[arg-type]
    request = pb.GetVocabularyRequest(model="m")
    found = await asyncio.gather(*(servicer.GetVocabulary(request, None) for _ in range(8)))  # type: ignore[arg-type]
    assert all(response == found[0] for response in found)
    assert list(found[0].pieces) == MODEL.pieces.pieces


async def test_a_vocabulary_that_one_caller_waited_for_is_there_for_the_next() -> None:
    servicer = TokenizerServicer({"m": TextModel("m", CHECKPOINT)}, None, 10)  # type: ignore[arg-type]
    request = pb.GetVocabularyRequest(model="m")
    first = asyncio.ensure_future(servicer.GetVocabulary(request, None))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    assert (await servicer.GetVocabulary(request, None)).pieces  # type: ignore[arg-type]


def with_pattern(folder: Path, pattern: str) -> Path:
    """A checkpoint whose tokenizer splits texts by an expression of its own."""
    shutil.copytree(CHECKPOINT, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, bytes_only]}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


@on_uvloop
@pytest.mark.process
@pytest.mark.parametrize("pattern", [r"(?:a|a)+$|(?:(?:a+)+b)", r"(a+)+$", r"(?:a*)*c"])
async def test_an_expression_that_runs_away_ends_as_an_error_of_the_request(tmp_path: Path, pattern: str) -> None:
    """The library gives up after some retries, in a way that no `except Exception` sees, or goes on."""
    folder = with_pattern(tmp_path / "bad", pattern)
    async with pool_of(folder, job_seconds=3.0) as pool:
        servicer = TokenizerServicer({"m": TextModel("m", folder)}, pool, 4096)
        async with asyncio.timeout(PATIENCE):
            for text in ("a" * 40 + "!", "a" * 3000 + "!"):
                with contextlib.suppress(InvalidRequest):
                    await servicer.Encode(pb.EncodeRequest(model="m", text=text), None)  # type: ignore[arg-type]
            found = await servicer.Encode(pb.EncodeRequest(model="m", text="hello"), None)  # type: ignore[arg-type]
        assert found.token_ids


@pytest.mark.process
async def test_a_model_whose_texts_take_long_leaves_a_process_to_others(tmp_path: Path) -> None:
    slow = folder_with(tmp_path, SLOW_WORD)
    sources = {"slow": TextSource(slow), "m": TextSource(CHECKPOINT)}
    pool = TextPool(sources, 2, template_seconds=PATIENCE, job_seconds=PATIENCE)
    try:
        waiting = [asyncio.create_task(pool.encode(ConversationToEncode("slow", SLOW))) for _ in range(4)]
        async with asyncio.timeout(PATIENCE / 2):
            assert (await pool.encode(ConversationToEncode("m", HELLO))).token_ids
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    finally:
        pool.close()


def test_the_expressions_of_the_bundled_model_are_known(tmp_path: Path) -> None:
    assert MODEL.is_predictable
    assert not TextModel("m", with_pattern(tmp_path / "bad", "(a+)+$")).is_predictable
