"""LangChain over the platform: answers, streams, tools, structured output, embeddings.

It is imported where it is used: it takes a second, in each process that collects the tests.
"""

from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr
from tests.harness.running_platform import RunningPlatform

QUESTION = "What is continuous batching?"


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"sunny in {city}"


class Step(BaseModel):
    """A step of a plan."""

    title: str = Field(max_length=12)
    minutes: int = Field(ge=0, le=90)


@pytest.fixture
def model(demo_platform: RunningPlatform) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model="headrace-demo",
        base_url=f"{demo_platform.http}/v1",
        api_key=SecretStr("none"),
        temperature=0,
        max_completion_tokens=200,
        max_retries=0,
    )


def test_an_answer_and_a_stream_are_the_same(model: Any) -> None:
    answer = model.invoke(QUESTION)
    assert answer.content
    assert "".join(chunk.content for chunk in model.stream(QUESTION)) == answer.content
    assert answer.usage_metadata["output_tokens"] > 0


def test_an_agents_turn(model: Any) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    weather = tool(get_weather)
    bound = model.bind_tools([weather], tool_choice="any", parallel_tool_calls=False)
    answer = bound.invoke([HumanMessage(QUESTION)])
    (call,) = answer.tool_calls
    assert call["name"] == "get_weather"
    result = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
    assert model.invoke([HumanMessage(QUESTION), answer, result]).content


def test_structured_output(model: Any) -> None:
    for method in ("json_schema", "function_calling"):
        found = model.with_structured_output(Step, method=method).invoke(QUESTION)
        assert isinstance(found, Step)


def test_the_responses_api(model: Any) -> None:
    answer = model.model_copy(update={"use_responses_api": True}).invoke(QUESTION)
    assert answer.text == model.invoke(QUESTION).content


def test_embeddings(embedding_platform: RunningPlatform) -> None:
    from langchain_openai import OpenAIEmbeddings

    embeddings = OpenAIEmbeddings(
        model="minilm",
        base_url=f"{embedding_platform.http}/v1",
        api_key=SecretStr("none"),
        check_embedding_ctx_length=False,
    )
    first, second = embeddings.embed_documents(["a", "b"])
    assert len(first) == len(second) == 384
