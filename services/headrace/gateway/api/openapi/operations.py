"""Operations of the REST API, by method and path."""

from headrace.gateway.api.anthropic.message_body import CountBody, MessageBody
from headrace.gateway.api.openai.batch_body import MAX_SECONDS, MIN_SECONDS, BatchBody
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.schema import (
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    EmbeddingBody,
    ModerationBody,
    RerankBody,
    ScoreBody,
    TokenizeBody,
)
from headrace.gateway.api.openapi import answers
from headrace.gateway.api.openapi.answers import COUNT, INTEGER, LIST, RESPONSE, TEXT, constant, listed, record
from headrace.gateway.api.openapi.operation import Operation
from headrace.gateway.api.operation.drain_body import DrainBody
from headrace.gateway.api.operation.models.bodies import AdapterBody, AdapterNameBody, AliasBody, LoadBody
from headrace.gateway.console.key_body import KeyBody

_RESPONSE_ID = {"type": "string", "pattern": "^resp_[0-9a-f]{32}$"}
_FILE_ID = {"type": "string", "pattern": "^file-[0-9a-f]{32}$"}
_BATCH_ID = {"type": "string", "pattern": "^batch_[0-9a-f]{32}$"}
_FORM = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary", "minLength": 1},
        "purpose": constant("batch"),
        "expires_after[anchor]": constant("created_at"),
        "expires_after[seconds]": {"type": "integer", "minimum": MIN_SECONDS, "maximum": MAX_SECONDS},
    },
    "required": ["file", "purpose"],
}
_EVENT_ID = {"type": "string", "pattern": "^[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,6}$"}
_DAY = {"type": "string", "format": "date"}
OPERATIONS: dict[str, Operation] = {
    "POST /v1/chat/completions": Operation("Answers a conversation", answers.CHAT_COMPLETION, ChatBody, streams=True),
    "POST /v1/completions": Operation("Continues prompts", answers.COMPLETION, CompletionBody, streams=True),
    "POST /v1/responses": Operation("Creates a response", RESPONSE, ResponseBody, streams=True),
    "GET /v1/responses/{id}": Operation(
        "Shows a stored response",
        RESPONSE,
        streams=True,
        query={"stream": {"enum": ["true", "false"]}, "starting_after": COUNT},
        path_schema=_RESPONSE_ID,
    ),
    "DELETE /v1/responses/{id}": Operation(
        "Deletes a stored response", record({"id": TEXT, "deleted": {"const": True}}), path_schema=_RESPONSE_ID
    ),
    "POST /v1/responses/{id}/cancel": Operation(
        "Cancels a response in the background", RESPONSE, path_schema=_RESPONSE_ID
    ),
    "GET /v1/responses/{id}/input_items": Operation(
        "Lists the input of a stored response", LIST, path_schema=_RESPONSE_ID
    ),
    "POST /v1/responses/input_tokens": Operation(
        "Counts the tokens of an input",
        record({"object": constant("response.input_tokens"), "input_tokens": COUNT}),
        ResponseBody,
    ),
    "POST /v1/messages": Operation(
        "Answers a conversation, as Anthropic's API does",
        answers.ANTHROPIC_MESSAGE,
        MessageBody,
        streams=True,
        errors="anthropic",
    ),
    "POST /v1/messages/count_tokens": Operation(
        "Counts the tokens of a conversation", record({"input_tokens": COUNT}), CountBody, errors="anthropic"
    ),
    "POST /v1/embeddings": Operation("Makes embeddings of inputs", answers.EMBEDDINGS, EmbeddingBody),
    "POST /v1/rerank": Operation(
        "Ranks documents by how close they are to a query",
        {"anyOf": [answers.RANKING, answers.TEXT_RANKING]},
        RerankBody,
    ),
    "POST /v1/score": Operation("Compares texts", LIST, ScoreBody),
    "POST /v1/moderations": Operation("Tells what the filter finds", answers.MODERATION, ModerationBody),
    "POST /v1/files": Operation("Stores a file of requests", answers.FILE, form=_FORM, needs_folder=True),
    "GET /v1/files": Operation(
        "Lists the files",
        LIST,
        query={
            "after": TEXT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 10_000},
            "order": {"enum": ["asc", "desc"]},
            "purpose": TEXT,
        },
        needs_folder=True,
    ),
    "GET /v1/files/{id}": Operation("Describes a file", answers.FILE, path_schema=_FILE_ID, needs_folder=True),
    "DELETE /v1/files/{id}": Operation(
        "Deletes a file",
        record({"id": TEXT, "deleted": {"const": True}}),
        path_schema=_FILE_ID,
        needs_folder=True,
    ),
    "GET /v1/files/{id}/content": Operation(
        "Sends the content of a file", TEXT, media_type="application/jsonl", path_schema=_FILE_ID, needs_folder=True
    ),
    "POST /v1/batches": Operation("Answers the requests of a file", answers.BATCH, BatchBody, needs_folder=True),
    "GET /v1/batches": Operation(
        "Lists the batches",
        LIST,
        query={"after": TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 100}},
        needs_folder=True,
    ),
    "GET /v1/batches/{id}": Operation("Describes a batch", answers.BATCH, path_schema=_BATCH_ID, needs_folder=True),
    "POST /v1/batches/{id}/cancel": Operation(
        "Cancels a batch", answers.BATCH, path_schema=_BATCH_ID, needs_folder=True
    ),
    "GET /v1/models": Operation("Lists the models", LIST),
    "GET /v1/models/{name}": Operation("Describes a model", answers.MODEL),
    "POST /tokenize": Operation(
        "Turns text into token ids",
        record({"tokens": listed(INTEGER), "count": COUNT, "max_model_len": COUNT}, {"token_strs": listed(TEXT)}),
        TokenizeBody,
    ),
    "POST /detokenize": Operation("Turns token ids into text", record({"prompt": TEXT}), DetokenizeBody),
    "GET /headrace/streams/{name}": Operation(
        "Sends the rest of a stream whose connection broke",
        TEXT,
        media_type="text/event-stream",
        query={"after": _EVENT_ID},
    ),
    "GET /headrace/usage": Operation(
        "Sums what requests used",
        LIST,
        query={"by": {"enum": ["key", "model", "tenant", "day"]}, "since": _DAY, "until": _DAY},
    ),
    "GET /headrace/requests": Operation(
        "Lists the last requests, where their time went, and why those that failed did",
        record({"object": constant("list"), "gateways": listed(TEXT), "data": listed(answers.REQUEST)}),
        query={"limit": {"type": "integer", "minimum": 1, "maximum": 1000}, "model": TEXT, "outcome": TEXT},
    ),
    "GET /headrace/requests/{id}": Operation("Shows where the time of one request went", answers.REQUEST),
    "GET /headrace/fleet": Operation("Describes services, workers, queues and open requests", record({"status": TEXT})),
    "GET /headrace/fleet/history": Operation(
        "Tells load and speed of each model over the last hour", answers.FLEET_HISTORY
    ),
    "POST /headrace/workers/{id}/drain": Operation(
        "Takes a worker away: its requests move to others, and it ends",
        record({"id": TEXT, "state": constant("draining"), "sessions": COUNT}),
        DrainBody,
    ),
    "GET /headrace/models": Operation(
        "Lists what is served, and what is being loaded and unloaded", record({"models": {"type": "array"}})
    ),
    "POST /headrace/models": Operation(
        "Serves one more model, or an adapter", record({"name": TEXT, "state": constant("served")}), LoadBody
    ),
    "DELETE /headrace/models/{name}": Operation(
        "Serves a model, or an adapter, no longer", record({"name": TEXT, "state": constant("unloaded")})
    ),
    "PUT /headrace/aliases/{name}": Operation(
        "Gives a model one more name", record({"name": TEXT, "model": TEXT}), AliasBody
    ),
    "DELETE /headrace/aliases/{name}": Operation(
        "Takes a further name away", record({"name": TEXT, "state": constant("removed")})
    ),
    "PUT /headrace/pins/{name}": Operation(
        "Keeps a model awake that takes turns with others, or leaves memory when idle",
        record({"name": TEXT, "pinned": constant(True)}),
    ),
    "DELETE /headrace/pins/{name}": Operation(
        "Lets a pinned model take turns again", record({"name": TEXT, "pinned": constant(False)})
    ),
    "POST /v1/load_lora_adapter": Operation(
        "Serves an adapter, as vLLM does", TEXT, AdapterBody, media_type="text/plain"
    ),
    "POST /v1/unload_lora_adapter": Operation(
        "Serves an adapter no longer, as vLLM does", TEXT, AdapterNameBody, media_type="text/plain"
    ),
    "GET /headrace/keys": Operation("Lists the API keys, without their secrets", LIST),
    "POST /headrace/keys": Operation("Makes an API key, shown this once", record({"id": TEXT, "key": TEXT}), KeyBody),
    "DELETE /headrace/keys/{id}": Operation("Revokes an API key", record({"id": TEXT, "state": TEXT})),
    "GET /console": Operation("The console, as a page", TEXT, media_type="text/html", needs_key=False),
    "GET /console/{name}": Operation("A file of the console", TEXT, media_type="text/javascript", needs_key=False),
    "GET /health": Operation("Tells that the gateway lives", record({"status": TEXT}), needs_key=False),
    "GET /ping": Operation("Tells that the gateway lives", record({"status": TEXT}), needs_key=False),
    "POST /ping": Operation("Tells that the gateway lives", record({"status": TEXT}), needs_key=False),
    "GET /version": Operation("Tells the version of the gateway", record({"version": TEXT}), needs_key=False),
    "GET /ready": Operation(
        "Tells whether the platform can serve",
        record({"status": TEXT, "services": {"type": "object"}}),
        needs_key=False,
    ),
    "GET /metrics": Operation("Metrics for Prometheus", TEXT, media_type="text/plain", needs_key=False),
    "GET /openapi.json": Operation("This description", record({"openapi": TEXT}), needs_key=False),
    "GET /docs": Operation("This description as a page", TEXT, media_type="text/html", needs_key=False),
    "GET /": Operation("Lists what there is", record({"name": TEXT, "endpoints": listed(TEXT)}), needs_key=False),
}
