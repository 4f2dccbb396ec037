"""A response from its creation on."""

from collections.abc import Sequence

from headrace.domain.message import Message
from headrace.gateway.api.entry.api_call import ApiCall
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.responses.response_events import ResponseEvents
from headrace.gateway.api.openai.responses.response_object import (
    IN_PROGRESS,
    QUEUED,
    new_response_id,
    response_object,
)
from headrace.gateway.api.openai.responses.response_request import (
    input_messages,
    response_conversation,
    response_options,
)
from headrace.gateway.api.openai.responses.stored_response import StoredResponse
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.fleet.model_facts import ModelFacts


class CreatedResponse:
    """Request for a response, the events that answer it, and what is stored of both."""

    def __init__(
        self,
        call: ApiCall,
        body: ResponseBody,
        facts: ModelFacts,
        earlier: Sequence[Message],
        begun: StoredResponse | None = None,
    ) -> None:
        """`earlier`: the conversation that it continues; `begun`: the response as another gateway created it. Raises
        InvalidRequest."""
        self.call = call
        self.body = body
        self.options = response_options(body)
        self.conversation = response_conversation(body, earlier)
        status = QUEUED if body.background else IN_PROGRESS
        response = response_object(body, facts, new_response_id(), status)
        if begun is not None:
            response |= {name: begun.response[name] for name in ("id", "created_at")}
        self.id: str = response["id"]
        self.events = ResponseEvents(response, body.functions.names)
        self.stored = StoredResponse(response, [*earlier, *input_messages(body)], _input_items(body))


def _input_items(body: ResponseBody) -> list[Json]:
    """Returns the input as items, each with an id."""
    if isinstance(body.input, str):
        content = [{"type": "input_text", "text": body.input}]
        return [{"id": "item_0", "type": "message", "role": "user", "content": content}]
    return [{"id": f"item_{index}", "type": "message"} | item for index, item in enumerate(body.input)]
