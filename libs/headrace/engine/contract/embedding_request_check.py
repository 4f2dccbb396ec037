"""Refuses inputs that cannot be embedded. Knows the model's facts, not its load."""

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import EngineRequest
from headrace.errors.tree import InvalidRequest


def check_embedding_request(request: EngineRequest, spec: EngineSpec) -> None:
    """Raises InvalidRequest: why it cannot be served, and what to change."""
    token_ids = request.prompt_token_ids
    if not token_ids:
        raise InvalidRequest("the input is empty: send at least one token", param="input")
    if len(token_ids) > spec.max_model_length:
        raise InvalidRequest(
            f"the input has {len(token_ids)} tokens, and this model reads {spec.max_model_length} at most: "
            "shorten or split it, or let truncate_prompt_tokens cut it",
            param="input",
        )
    outside = next((token_id for token_id in token_ids if not 0 <= token_id < spec.vocabulary_size), None)
    if outside is not None:
        raise InvalidRequest(
            f"token id {outside} is outside the model's vocabulary of {spec.vocabulary_size}: "
            "use the tokenizer that belongs to the model",
            param="input",
        )
