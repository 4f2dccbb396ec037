"""The console's page reads on in a stream whose connection breaks. Its code runs in node, without a browser."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.libs.client.test_resumed_streams import END, GONE, HEAD, STOPPING, TEXTS, broken, events, server

NODE = shutil.which("node")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.process,
    pytest.mark.skipif(NODE is None, reason="node is not installed; to run it: install Debian's nodejs"),
]
FULL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


async def page(root: Path, address: str, folder: Path) -> list[Any]:
    """Everything that a page shows of a stream."""
    module = folder / "api.mjs"
    module.write_text((root / "services/headrace/gateway/console/static/api.js").read_text())
    program = Path(__file__).with_name("resumed_page.mjs")
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(program), address, str(module), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return list(json.loads(out))


async def test_a_page_reads_on_at_the_gateway_that_answers(root: Path, tmp_path: Path) -> None:
    async with server(broken(events(0, 2)), FULL, HEAD + events(2, 4), HEAD + events(4) + END) as gateway:
        shown = await page(root, gateway.address, tmp_path)
    assert shown[: len(TEXTS)] == TEXTS
    assert shown[-1] == "[DONE]"
    places = ["1-2", "1-2", "3-4"]
    assert gateway.asked[1:] == [f"GET /headrace/streams/chatcmpl-a%2fb?after={place}-0" for place in places]


async def test_a_page_says_that_a_stream_is_gone(root: Path, tmp_path: Path) -> None:
    async with server(broken(events(0, 2)), GONE) as gateway:
        shown = await page(root, gateway.address, tmp_path)
    assert shown == [*TEXTS[:2], "HTTP status 404"]


async def test_an_error_in_a_stream_ends_it(root: Path, tmp_path: Path) -> None:
    failed = HEAD + events(0, 1) + f"data: {json.dumps(STOPPING, separators=(',', ':'))}\n\n".encode()
    async with server(failed) as gateway:
        shown = await page(root, gateway.address, tmp_path)
    assert json.loads(shown[-1]) == STOPPING
    assert len(gateway.asked) == 1
