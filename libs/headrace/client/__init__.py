"""A typed client of a platform, over HTTP and over gRPC: `from headrace.client import Headrace`."""

from headrace.client.answer import Answer, CallChunk, Chunk, TokenUsage
from headrace.client.answer_stream import AnswerStream
from headrace.client.findings import Embeddings, Model, Ranked, Ranking, RequestTrace, UsageRow
from headrace.client.headrace import Headrace
from headrace.client.options import Tool
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall

__all__ = [
    "Answer",
    "AnswerStream",
    "CallChunk",
    "Chunk",
    "Embeddings",
    "Headrace",
    "Message",
    "Model",
    "Ranked",
    "Ranking",
    "RequestTrace",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "UsageRow",
]
