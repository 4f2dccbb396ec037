"""One case of a peer's behavior, and how it is tried here."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

MODEL, ENCODER = "headrace-demo", "minilm"
Json = dict[str, Any]
CHAT, COMPLETION, RESPONSE, MESSAGE = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
)
QUESTION = {"role": "user", "content": "What is a KV cache?"}
_BODIES: Mapping[str, Json] = {
    CHAT: {"model": MODEL, "messages": [QUESTION], "temperature": 0, "max_tokens": 60},
    COMPLETION: {"model": MODEL, "prompt": "A KV cache is", "temperature": 0, "max_tokens": 8},
    RESPONSE: {"model": MODEL, "input": "What is a KV cache?", "temperature": 0, "max_output_tokens": 60},
    MESSAGE: {"model": MODEL, "messages": [QUESTION], "temperature": 0, "max_tokens": 60},
}
TOOL: Json = {
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 8}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
FUNCTION = {"type": "function", "function": TOOL}


class Client:
    """Sends the least that an API takes, with what a case adds."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def post(self, path: str, **fields: Any) -> httpx2.Response:
        """Fields of None are left out."""
        body = {name: value for name, value in (_BODIES.get(path, {}) | fields).items() if value is not None}
        return await self.http.post(path, json=body)

    async def answer(self, path: str, **fields: Any) -> Json:
        """Returns the body of an answer, which must be none of an error."""
        response = await self.post(path, **fields)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    async def events(self, path: str, **fields: Any) -> list[Json]:
        """Returns the events of an answer that is streamed."""
        response = await self.post(path, stream=True, **fields)
        assert response.status_code == 200, response.text
        lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]

    async def refusal(self, path: str, **fields: Any) -> Json:
        """Returns the error of an answer, which must be the client's fault."""
        response = await self.post(path, **fields)
        assert response.status_code == 400, response.text
        found: Json = response.json()["error"]
        return found

    async def text(self, **fields: Any) -> str:
        """Returns the content of a chat's answer."""
        return str((await self.answer(CHAT, **fields))["choices"][0]["message"]["content"])


@dataclass(frozen=True, slots=True)
class Case:
    """Input that peers take, and what comes of it."""

    title: str
    peer: str
    """Servers and clients whose behavior it is."""
    check: Callable[[Client], Awaitable[None]]
    otherwise: str = ""
    """Behavior here, and the reason for it. Empty: the same."""
