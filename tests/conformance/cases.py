"""Cases of peers' own suites and reports, in words of our own."""

import re
from collections.abc import Awaitable, Callable

from tests.conformance.case import (
    CHAT,
    COMPLETION,
    ENCODER,
    FUNCTION,
    MESSAGE,
    MODEL,
    QUESTION,
    RESPONSE,
    TOOL,
    Case,
    Client,
    Json,
)

BEGUN = {"role": "assistant", "content": "A KV cache is a"}
LONG = "word " * 4000
CASES: list[Case] = []
Check = Callable[[Client], Awaitable[None]]


def case(title: str, peer: str, otherwise: str = "") -> Callable[[Check], Check]:
    """Adds a case that the decorated function checks."""

    def add(check: Check) -> Check:
        CASES.append(Case(title, peer, check, otherwise))
        return check

    return add


@case("a last message goes on with `continue_final_message`", "vLLM, SGLang, llama.cpp")
async def _(client: Client) -> None:
    begun = await client.text(messages=[QUESTION, BEGUN], continue_final_message=True, add_generation_prompt=False)
    closed = await client.text(messages=[QUESTION, BEGUN])
    assert begun != closed
    ids = (await client.answer("/tokenize", model=MODEL, messages=[QUESTION, BEGUN], continue_final_message=True))[
        "tokens"
    ]
    raw = await client.answer(COMPLETION, prompt=ids, max_tokens=60)
    assert raw["choices"][0]["text"] == begun


@case("`continue_final_message` and `add_generation_prompt` together are an error", "vLLM")
async def _(client: Client) -> None:
    for path, fields in ((CHAT, {}), ("/tokenize", {"model": MODEL})):
        error = await client.refusal(
            path, messages=[QUESTION, BEGUN], continue_final_message=True, add_generation_prompt=True, **fields
        )
        assert error["param"] == "continue_final_message"


@case("`echo` of a chat puts the last message before the answer", "vLLM")
async def _(client: Client) -> None:
    given: Json = {"messages": [QUESTION, BEGUN], "continue_final_message": True}
    assert await client.text(**given, echo=True) == BEGUN["content"] + await client.text(**given)


@case("a last message of the assistant is the beginning of the answer", "Anthropic, ollama")
async def _(client: Client) -> None:
    whole = await client.answer(MESSAGE, messages=[QUESTION, BEGUN])
    assert whole["content"][0]["text"] == await client.text(messages=[QUESTION, BEGUN], continue_final_message=True)


@case("a prompt that is too long has the code `context_length_exceeded` and the field at fault", "OpenAI, langchain")
async def _(client: Client) -> None:
    said = {"role": "user", "content": LONG}
    given: list[tuple[str, Json, str]] = [
        (CHAT, {"messages": [said]}, "messages"),
        (COMPLETION, {"prompt": LONG}, "prompt"),
        (RESPONSE, {"input": LONG}, "input"),
        (CHAT, {"max_tokens": 3000}, "max_tokens"),
        (CHAT, {"max_tokens": None, "max_completion_tokens": 3000}, "max_completion_tokens"),
    ]
    for path, fields, param in given:
        error = await client.refusal(path, **fields)
        assert (error["code"], error["param"]) == ("context_length_exceeded", param)
        assert "maximum context length is 2048 tokens" in error["message"]


@case("a prompt that is too long says `prompt is too long: N tokens > M maximum`", "Anthropic, Claude Code")
async def _(client: Client) -> None:
    error = await client.refusal(MESSAGE, messages=[{"role": "user", "content": LONG}])
    assert error["type"] == "invalid_request_error"
    assert re.match(r"prompt is too long: [0-9]{4} tokens > 2048 maximum", error["message"])


@case("`max_tokens` beyond the window ends at the window in Messages and Responses", "vLLM, llama.cpp, Claude Code")
async def _(client: Client) -> None:
    assert (await client.answer(MESSAGE, max_tokens=32000))["stop_reason"] == "end_turn"
    assert (await client.answer(RESPONSE, max_output_tokens=32000))["status"] == "completed"
    prompt = [{"role": "user", "content": "word " * 1010}]
    filled = await client.answer(MESSAGE, max_tokens=32000, messages=prompt, temperature=1)
    assert filled["stop_reason"] in ("end_turn", "model_context_window_exceeded")


@case(
    "`max_tokens` beyond the window ends at the window in chats and completions",
    "vLLM, llama.cpp",
    "refused, as at OpenAI, unless [`gateway.ends_at_window`](decisions/0053-long-answers-end-at-the-window.md) is set",
)
async def _(client: Client) -> None:
    assert (await client.refusal(CHAT, max_tokens=32000))["param"] == "max_tokens"


@case("a response has all fields that the schema requires", "OpenResponses")
async def _(client: Client) -> None:
    response = await client.answer(RESPONSE, tools=[{"type": "function", **TOOL}], tool_choice="none")
    assert response.keys() >= REQUIRED
    numbers = [response[name] for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty")]
    assert all(isinstance(number, float | int) for number in numbers)
    assert response["completed_at"] >= response["created_at"]
    assert {"description", "strict", "parameters"} <= response["tools"][0].keys()
    told = [event["response"] for event in await client.events(RESPONSE) if "response" in event]
    assert [each["status"] for each in told] == ["in_progress", "in_progress", "completed"]
    for each in told:
        assert each.keys() >= REQUIRED
        assert all(isinstance(each[name], float | int) for name in ("temperature", "top_p"))
        assert (each["completed_at"] is None) == (each["status"] == "in_progress")


REQUIRED = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id"),
    *("instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p"),
    *("presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "store"),
    *("max_output_tokens", "max_tool_calls", "background", "service_tier", "metadata", "safety_identifier"),
    "prompt_cache_key",
}


@case("`max_model_len`, `root` and `parent` describe a model", "vLLM, SGLang")
async def _(client: Client) -> None:
    listed = {model["id"]: model for model in (await client.http.get("/v1/models")).json()["data"]}
    model = listed[MODEL]
    assert (model["max_model_len"], model["root"], model["parent"]) == (2048, MODEL, None)
    assert (await client.answer("/tokenize", model=MODEL, prompt="a"))["max_model_len"] == 2048


@case("`return_token_ids` of a chat has the prompt's ids at the top", "vLLM")
async def _(client: Client) -> None:
    whole = await client.answer(CHAT, return_token_ids=True, max_tokens=2)
    prompt = (await client.answer("/tokenize", model=MODEL, messages=[QUESTION]))["tokens"]
    assert whole["prompt_token_ids"] == prompt
    assert "prompt_token_ids" not in whole["choices"][0]
    streamed = (await client.post(CHAT, return_token_ids=True, max_tokens=2, stream=True)).text
    assert f'"prompt_token_ids":{str(prompt).replace(" ", "")}' in streamed.split("\n\n")[0]
    completed = await client.answer(COMPLETION, return_token_ids=True)
    assert completed["choices"][0]["prompt_token_ids"]


@case("`grammar` in GBNF, and `ebnf`", "llama.cpp, SGLang")
async def _(client: Client) -> None:
    for field in ("grammar", "ebnf"):
        assert await client.text(**{field: 'root ::= "a"{5,5}'}) == "aaaaa"


@case("`json_schema` and `regex` as fields of their own", "llama.cpp, SGLang")
async def _(client: Client) -> None:
    assert await client.text(json_schema={"const": 7}) == "7"
    assert len(await client.text(regex="[0-9]{3}")) == 3


@case("`response_format` of the type `json_object` with a `schema`", "llama.cpp")
async def _(client: Client) -> None:
    assert await client.text(response_format={"type": "json_object", "schema": {"const": {"a": 1}}}) == '{"a": 1}'


@case("`allowed_token_ids`", "vLLM")
async def _(client: Client) -> None:
    allowed = [40, 41, 42]
    answer = await client.answer(COMPLETION, allowed_token_ids=allowed, return_token_ids=True)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert set(choice["token_ids"]) <= set(allowed)


@case("`truncate_prompt_tokens` keeps the end of the prompt, or its beginning", "vLLM")
async def _(client: Client) -> None:
    prompt: Json = {"prompt": [70, 71, 72, 73], "return_token_ids": True, "truncate_prompt_tokens": 2}
    for side, kept in ((None, [72, 73]), ("left", [72, 73]), ("right", [70, 71])):
        answer = await client.answer(COMPLETION, **prompt, truncation_side=side)
        assert answer["choices"][0]["prompt_token_ids"] == kept
    long = await client.answer(CHAT, messages=[{"role": "user", "content": LONG}], truncate_prompt_tokens=-1)
    assert long["usage"]["prompt_tokens"] == 2048 - 60


@case("`return_tokens_as_token_ids` names tokens by their ids", "vLLM")
async def _(client: Client) -> None:
    answer = await client.answer(COMPLETION, logprobs=1, return_tokens_as_token_ids=True, return_token_ids=True)
    choice = answer["choices"][0]
    assert choice["logprobs"]["tokens"] == [f"token_id:{token_id}" for token_id in choice["token_ids"]]
    chat = await client.answer(CHAT, logprobs=True, top_logprobs=1, return_tokens_as_token_ids=True, max_tokens=1)
    assert chat["choices"][0]["logprobs"]["content"][0]["token"].startswith("token_id:")


@case("`documents` reach the chat template", "vLLM")
async def _(client: Client) -> None:
    # The template here reads none: the gateway's own tests show that they are passed on.
    response = await client.post(CHAT, documents=[{"title": "T", "text": "t"}])
    assert (response.status_code, response.headers.get("x-headrace-ignored-fields")) == (200, None)


@case(
    "`bad_words`, `logprob_token_ids`, `prompt_logprobs`, `use_beam_search`, `structural_tag`, `stop_regex`, `n_probs`",
    "vLLM, SGLang, llama.cpp",
    "refused by name in every API: there is nothing here that follows them, and an answer without them looks right",
)
async def _(client: Client) -> None:
    wishes = {"bad_words": ["a"], "logprob_token_ids": [1], "prompt_logprobs": 1, "use_beam_search": True}
    wishes |= {"structural_tag": "{}", "stop_regex": "a+", "n_probs": 3}
    for path in (CHAT, COMPLETION, RESPONSE, MESSAGE):
        for name, value in wishes.items():
            assert name in (await client.refusal(path, **{name: value}))["message"]


@case(
    "`chat_template` of a request",
    "vLLM",
    "for keys with the scope `admin`, in a chat: templates are programs; elsewhere refused",
)
async def _(client: Client) -> None:
    error = await client.refusal("/tokenize", model=MODEL, messages=[QUESTION], chat_template="{{ messages }}")
    assert error["param"] == "chat_template"
    await client.answer(CHAT, chat_template="{{ messages[0].content }}")


@case("empty values of what is not supported ask for nothing", "Claude Code, OpenAI's SDK")
async def _(client: Client) -> None:
    await client.answer(MESSAGE, mcp_servers=[], container="", context_management={"edits": []})
    await client.answer(RESPONSE, prompt={}, conversation="", context_management=[])
    await client.answer(CHAT, functions=[], moderation={}, bad_words=[])


@case("a response in the background is streamed, and read again from a number on", "OpenAI")
async def _(client: Client) -> None:
    streamed = (await client.post(RESPONSE, background=True, stream=True)).text.strip().split("\n\n")
    response_id = streamed[0].split('"id":"')[1].split('"')[0]
    path = f"{RESPONSE}/{response_id}?stream=true"
    assert (await client.http.get(path)).text.strip().split("\n\n") == streamed
    assert (await client.http.get(f"{path}&starting_after=4")).text.strip().split("\n\n") == streamed[5:]


@case("a response in the background goes on when the client of its stream leaves", "OpenAI")
async def _(client: Client) -> None:
    body = {"model": MODEL, "input": "What is a KV cache?", "temperature": 0, "background": True, "stream": True}
    async with client.http.stream("POST", RESPONSE, json=body) as left:
        lines = left.aiter_lines()
        while not (first := await anext(lines)).startswith("data: "):
            pass
    response_id = first.split('"id":"')[1].split('"')[0]
    assert '"type":"response.completed"' in (await client.http.get(f"{RESPONSE}/{response_id}?stream=true")).text


@case(
    "a response that was not made in the background and as a stream is read again as a stream",
    "OpenAI",
    "a 400 that names `stream`: its events are not kept",
)
async def _(client: Client) -> None:
    made = await client.answer(RESPONSE)
    shown = await client.http.get(f"{RESPONSE}/{made['id']}?stream=true")
    assert (shown.status_code, shown.json()["error"]["param"]) == (400, "stream")


@case("a call that the limit cuts off leaves nothing of its syntax", "OpenAI")
async def _(client: Client) -> None:
    for limit in (1, 3, 6, 10):
        given: Json = {"tools": [FUNCTION], "tool_choice": "required", "max_tokens": limit}
        assert (await client.answer(CHAT, **given))["choices"][0]["message"]["content"] is None
        assert "tool_call>" not in (await client.post(CHAT, **given, stream=True)).text


@case("`/tokenize` counts tools as the chat does", "vLLM")
async def _(client: Client) -> None:
    chat = await client.answer(CHAT, tools=[FUNCTION], max_tokens=1)
    counted = await client.answer(
        "/tokenize", model=MODEL, messages=[QUESTION], tools=[FUNCTION], return_token_strs=True
    )
    assert counted["count"] == chat["usage"]["prompt_tokens"] == len(counted["token_strs"])


@case("a forced function is called exactly once", "OpenAI, Anthropic, instructor")
async def _(client: Client) -> None:
    for seed in range(4):
        hot: Json = {"temperature": 1, "max_tokens": 200, "seed": seed}
        forced = {"type": "function", "function": {"name": "get_weather"}}
        choice = (await client.answer(CHAT, tools=[FUNCTION], tool_choice=forced, **hot))["choices"][0]
        assert (len(choice["message"]["tool_calls"]), choice["finish_reason"]) == (1, "tool_calls")
    tool = {"name": TOOL["name"], "input_schema": TOOL["parameters"]}
    message = await client.answer(
        MESSAGE, tools=[tool], tool_choice={"type": "tool", "name": "get_weather"}, temperature=1
    )
    assert [block["type"] for block in message["content"]] == ["tool_use"]
    one = {"type": "function", "name": "get_weather"}
    response = await client.answer(RESPONSE, tools=[{"type": "function", **TOOL}], tool_choice=one, temperature=1)
    assert [item["type"] for item in response["output"]] == ["function_call"]


@case("numbers end: 16 digits before the point and after it", "llama.cpp")
async def _(client: Client) -> None:
    digits = {str(token_id): 50 for token_id in await _ids(client, "1", "11", "0")}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    answer = await client.answer(CHAT, response_format=form, logit_bias=digits, max_tokens=120)
    assert answer["choices"][0]["finish_reason"] == "stop"


async def _ids(client: Client, *texts: str) -> list[int]:
    found = [await client.answer("/tokenize", model=MODEL, prompt=text, add_special_tokens=False) for text in texts]
    return sorted({token_id for each in found for token_id in each["tokens"]})


@case(
    "`minProperties` above the keys that must be there, beside keys of any name",
    "JSON Schema",
    "refused by name: a grammar cannot see that a key stands twice",
)
async def _(client: Client) -> None:
    schema = {"type": "object", "patternProperties": {"^a$": {"type": "boolean"}}, "additionalProperties": False}
    error = await client.refusal(CHAT, guided_json=schema | {"minProperties": 2, "maxProperties": 2})
    assert "minProperties" in error["message"]


@case("`/rerank`, `/v2/rerank` and `/score`, and other paths without `/v1`", "vLLM, llama.cpp, Cohere")
async def _(client: Client) -> None:
    texts: Json = {"model": ENCODER, "query": "a cat", "documents": ["a kitten", "a rate"]}
    for path in ("/v1/rerank", "/rerank", "/v2/rerank"):
        found = await client.answer(path, **texts)
        assert found["results"][0]["index"] == 0
        assert found["usage"]["prompt_tokens"] == found["usage"]["total_tokens"]
    pair: Json = {"model": ENCODER, "queries": "a cat", "documents": ["a kitten", "a rate"]}
    scores = [entry["score"] for entry in (await client.answer("/score", **pair))["data"]]
    assert scores[0] > scores[1]
    assert (await client.answer("/embeddings", model=ENCODER, input="a"))["data"]
    assert (await client.answer("/chat/completions", model=MODEL, messages=[QUESTION], max_tokens=1))["choices"]
    assert (await client.http.get("/models")).json()["data"]


@case("`truncate_prompt_tokens` of a ranking, and what is too long without it", "vLLM")
async def _(client: Client) -> None:
    long: Json = {"model": ENCODER, "query": "a", "documents": ["water " * 400]}
    error = await client.refusal("/rerank", **long)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "documents")
    assert (await client.answer("/rerank", **long, truncate_prompt_tokens=-1))["results"]
    assert (
        await client.answer("/score", model=ENCODER, text_1="a", text_2=long["documents"], truncate_prompt_tokens=9)
    )["data"]
    refused = await client.refusal("/rerank", **long, truncate_prompt_tokens=-1, truncation_side="left")
    assert refused["param"] == "truncation_side"


@case("`texts` of a ranking, answered as a list", "text-embeddings-inference")
async def _(client: Client) -> None:
    given: Json = {"model": ENCODER, "query": "a cat", "texts": ["a rate", "a kitten"]}
    response = await client.post("/rerank", **given, return_text=True)
    assert [(entry["index"], entry["text"]) for entry in response.json()] == [(1, "a kitten"), (0, "a rate")]


@case("`/version` and `/ping`", "vLLM")
async def _(client: Client) -> None:
    assert (await client.http.get("/version")).json()["version"]
    assert (await client.http.get("/ping")).status_code == 200


@case("the only model needs no name", "vLLM, llama.cpp")
async def _(client: Client) -> None:
    assert (await client.answer(CHAT, model=None, max_tokens=1))["model"] == MODEL
    assert (await client.answer("/v1/embeddings", input="a"))["model"] == ENCODER
    assert (await client.answer(RESPONSE, model=None))["model"] == MODEL


@case("`system_fingerprint` names the weights", "OpenAI, vLLM, llama.cpp")
async def _(client: Client) -> None:
    answers = [await client.answer(path, max_tokens=1) for path in (CHAT, CHAT, COMPLETION)]
    assert len({answer["system_fingerprint"] for answer in answers}) == 1
    assert answers[0]["system_fingerprint"].startswith("fp_")


@case("`continuous_usage_stats` needs `include_usage`", "vLLM")
async def _(client: Client) -> None:
    options = {"include_usage": False, "continuous_usage_stats": True}
    assert '"usage"' not in (await client.post(CHAT, stream=True, stream_options=options)).text
    assert '"usage":{' in (await client.post(CHAT, stream=True, stream_options=options | {"include_usage": True})).text


@case("a bad key of `logit_bias` is named", "vLLM, OpenAI")
async def _(client: Client) -> None:
    assert "'x'" in (await client.refusal(CHAT, logit_bias={"5": 1, "x": 2}))["message"]


@case("a role that no API knows", "vLLM", "refused, as at OpenAI: templates pass over roles that they do not know")
async def _(client: Client) -> None:
    assert "messages.0.role" in (await client.refusal(CHAT, messages=[{"role": "mine", "content": "x"}]))["message"]


@case("`top_logprobs: -1` for the whole vocabulary", "vLLM", "refused: at most 20, as at OpenAI")
async def _(client: Client) -> None:
    assert (await client.refusal(CHAT, logprobs=True, top_logprobs=-1))["param"] == "top_logprobs"


@case(
    "`web_search_options`, and the tool `web_search`",
    "OpenAI",
    "answered without, and named in `x-headrace-ignored-fields`",
)
async def _(client: Client) -> None:
    chat = await client.post(CHAT, web_search_options={})
    response = await client.post(RESPONSE, tools=[{"type": "web_search"}])
    assert chat.headers["x-headrace-ignored-fields"] == "web_search_options"
    assert response.headers["x-headrace-ignored-fields"] == "tools.web_search"


@case("embeddings of `messages`, or of texts and ids in one input", "vLLM, llama.cpp", "refused, as at OpenAI")
async def _(client: Client) -> None:
    assert (await client.refusal("/v1/embeddings", model=ENCODER, input=["a", 5]))["param"] == "input"
    assert (await client.refusal("/v1/embeddings", model=ENCODER, messages=[QUESTION]))["param"] == "input"


@case(
    "`/pooling`, `/classify`, `/invocations`, `/load`, `/tokenizer_info`",
    "vLLM",
    "404: there is nothing behind them here",
)
async def _(client: Client) -> None:
    for path in ("/pooling", "/classify", "/invocations"):
        assert (await client.post(path)).status_code == 404
    for path in ("/load", "/tokenizer_info"):
        assert (await client.http.get(path)).status_code == 404


@case(
    "`/v2/embed`, and `/v1/chat/completions/input_tokens`",
    "vLLM, llama.cpp",
    "404: `/v1/embeddings`, `/v1/messages/count_tokens` and `/v1/responses/input_tokens` do the same",
)
async def _(client: Client) -> None:
    assert (await client.post("/v2/embed", model=ENCODER, texts=["a"], input_type="search_query")).status_code == 404
    counted = await client.post("/v1/chat/completions/input_tokens", model=MODEL, messages=[QUESTION])
    assert counted.status_code == 404
