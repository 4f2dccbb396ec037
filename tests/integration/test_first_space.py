"""The first space of an output, where the tokenizer's decoder drops the space that a text begins with."""

import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from headrace.demo_model import CHECKPOINT

pytestmark = pytest.mark.anyio
BOS, THE, HELLO = 1, 300, 301
MARKS = ["<unk>", "<s>", "</s>"]


def tokenizer() -> Tokenizer:
    """A tokenizer as Llama 2 has it."""
    tokens = [*MARKS, *(f"<0x{byte:02X}>" for byte in range(256)), *(f"<{index}>" for index in range(259, 300))]
    tokens += ["▁the", "▁hello"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    made = Tokenizer(
        models.BPE(vocabulary, [], unk_token="<unk>", fuse_unk=True, byte_fallback=True, ignore_merges=True)
    )
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_special_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    return made


@pytest.fixture(scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcessPlatform]:
    folder = tmp_path_factory.mktemp("models") / "model"
    shutil.copytree(CHECKPOINT, folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    config = {"chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    worker = {"models": {"m": folder}, "thread_count": 1, "kv_cache_bytes": 8 << 20, "max_running_count": 4}
    shape = Shape({"m": folder}, [worker])
    async with in_process_platform(shape, tmp_path_factory.mktemp("platform")) as made:
        yield made


@pytest.fixture
async def client(platform: InProcessPlatform) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=platform.http, timeout=20.0) as made:
        yield made


def body(**fields: Any) -> dict[str, Any]:
    """A request for three times the token of ` the`."""
    given = {"model": "m", "logit_bias": {str(THE): 100}, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
    return given | fields


async def choice(client: httpx2.AsyncClient, path: str = "/v1/completions", **fields: Any) -> dict[str, Any]:
    response = await client.post(path, json=body(**fields))
    assert response.status_code == 200, response.text
    return dict(response.json()["choices"][0])


async def test_a_completion_goes_on_after_its_prompt(client: httpx2.AsyncClient) -> None:
    assert (await choice(client, prompt="hello"))["text"] == " the the the"
    assert (await choice(client, prompt="hello", echo=True))["text"] == "hello the the the"
    assert (await choice(client, prompt=[BOS, HELLO]))["text"] == " the the the"
    assert (await choice(client, prompt=[BOS]))["text"] == "the the the"


async def test_a_streamed_completion_goes_on_after_its_prompt(client: httpx2.AsyncClient) -> None:
    async with client.stream("POST", "/v1/completions", json=body(prompt="hello", stream=True)) as response:
        events = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["text"] for event in events) == " the the the"


async def test_a_stop_text_begins_with_the_first_space(client: httpx2.AsyncClient) -> None:
    found = await choice(client, prompt="hello", stop=[" the"])
    assert (found["text"], found["finish_reason"]) == ("", "stop")


async def test_offsets_are_places_in_the_text(client: httpx2.AsyncClient) -> None:
    found = await choice(client, prompt="hello", echo=True, logprobs=1)
    text, offsets = found["text"], found["logprobs"]["text_offset"]
    assert offsets == [0, 0, 5, 9, 13]
    assert [text[offset : offset + 4] for offset in offsets[2:]] == [" the"] * 3
    begun = (await choice(client, prompt=[BOS], logprobs=1))["logprobs"]
    assert begun["text_offset"] == [0, 3, 7]


async def test_an_answer_begins_a_text_and_a_begun_one_goes_on(client: httpx2.AsyncClient) -> None:
    asked = [{"role": "user", "content": "hello"}]
    answer = await choice(client, "/v1/chat/completions", messages=asked)
    assert answer["message"]["content"] == "the the the"
    begun = [*asked, {"role": "assistant", "content": "hello"}]
    ending = {"continue_final_message": True, "add_generation_prompt": False}
    assert (await choice(client, "/v1/chat/completions", messages=begun, **ending))["message"][
        "content"
    ] == " the the the"


async def test_text_of_ids_is_a_text_by_itself(client: httpx2.AsyncClient) -> None:
    response = await client.post("/detokenize", json={"model": "m", "tokens": [HELLO, THE]})
    assert response.json()["prompt"] == "hello the"
