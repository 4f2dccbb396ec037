"""Tools of the Responses API: functions count wherever they stand, and others are left out and named."""

import json
from typing import Any

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.model_body import ignored_fields, parse
from headrace.gateway.api.openai.fields.tool_fields import MAX_TOOLS
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.responses.response_request import response_conversation, response_options
from headrace.gateway.api.openai.responses.response_tools import FunctionName

RUN = {"type": "function", "name": "run", "parameters": {"type": "object"}}
SPACE = {"type": "namespace", "name": "mcp__files__", "tools": [RUN, {"type": "custom", "name": "patch"}]}
ADDED = {"type": "additional_tools", "tools": [RUN | {"name": "added"}]}
OTHERS = ["web_search", "custom", "local_shell", "tool_search", "image_generation", "mcp", "shell", "apply_patch"]


def read(**fields: Any) -> ResponseBody:
    return parse(ResponseBody, json.dumps({"model": "m", "input": "hi"} | fields).encode())


def names(body: ResponseBody) -> list[str]:
    return [tool["function"]["name"] for tool in response_conversation(body, []).tools]


@pytest.mark.parametrize("kind", OTHERS)
def test_a_tool_of_another_platform_is_left_out_and_named(kind: str) -> None:
    body = read(tools=[{"type": kind, "name": "x", "anything": {}}, RUN])
    assert ignored_fields(body, strict=False) == [f"tools.{kind}"]
    assert names(body) == ["run"]


def test_functions_count_wherever_they_stand() -> None:
    found = {"type": "tool_search_output", "call_id": "c", "tools": [RUN | {"name": "found"}, SPACE]}
    body = read(tools=[RUN, SPACE], input=[ADDED, {"role": "user", "content": "x"}, found, ADDED])
    assert names(body) == ["run", "mcp__files__run", "added", "found"]
    assert body.functions.names["mcp__files__run"] == FunctionName("run", "mcp__files__")
    assert ignored_fields(body, strict=False) == ["tools.custom"]


@pytest.mark.parametrize(
    ("choice", "seen"),
    [
        ({"type": "function", "name": "only"}, "space__only"),
        ({"type": "function", "name": "only", "namespace": "space"}, "space__only"),
        ({"type": "function", "name": "run"}, "run"),
        ({"type": "function", "name": "run", "namespace": "mcp__files__"}, "mcp__files__run"),
    ],
)
def test_a_function_is_chosen_by_the_names_that_the_client_has(choice: dict[str, Any], seen: str) -> None:
    other = {"type": "namespace", "name": "space", "tools": [RUN | {"name": "only"}]}
    use = response_options(read(tools=[RUN, SPACE, other], tool_choice=choice)).tool_use
    assert use is not None
    assert ([tool.name for tool in use.tools], use.is_required, use.allows_several) == ([seen], True, False)


@pytest.mark.parametrize(
    "choice",
    ["required", {"type": "function", "name": "patch"}, {"type": "function", "name": "run", "namespace": "no"}],
)
def test_a_choice_of_what_is_left_out_is_an_error(choice: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        response_options(read(tools=[{"type": "custom", "name": "patch"}], tool_choice=choice))
    assert refused.value.param == "tool_choice"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tools": [RUN, RUN]}, "several tools of the name run"),
        ({"tools": [{"type": "function"}]}, "has no name"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "has no name"),
        ({"tools": [SPACE | {"name": "n" * 128}]}, "more than 128 characters"),
        ({"input": [{"type": "additional_tools", "tools": [{"name": "x"}]}]}, r"input\.0\.tools: .*type is required"),
        ({"input": [{"type": "additional_tools", "tools": {}}, ADDED]}, None),
        ({"input": [ADDED | {"tools": [RUN] * MAX_TOOLS}] * 17}, f"more than {16 * MAX_TOOLS} tools"),
    ],
)
def test_tools_that_cannot_be_are_explained(fields: dict[str, Any], says: str | None) -> None:
    if says is None:
        assert ignored_fields(read(**fields), strict=True) == []
        return
    with pytest.raises(InvalidRequest, match=says):
        ignored_fields(read(**fields), strict=False)
