"""A response that is kept for later requests."""

import msgspec

from headrace.domain.message import Message
from headrace.gateway.api.openai.token_logprobs import Json


class StoredResponse(msgspec.Struct):
    """A response, and the conversation up to its end."""

    response: Json
    messages: list[Message] = []
    """Messages without the instructions, which do not carry over to the next response."""
    input: list[Json] = []
    """Items of the request's input."""
