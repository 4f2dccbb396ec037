"""Sampling and grammars as vLLM takes them."""

import json
import re
from typing import Any

from vllm import SamplingParams as VllmSampling
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import EngineRequest
from headrace.errors.tree import InvalidRequest, Unsupported

_COMPACT = {"item_separator": ", ?", "key_separator": ": ?", "whitespace_flexible": False}
"""Options of llguidance: between two values at most one space, because small models write whitespace for ever."""
NO_TOP_K = 0
"""vLLM's word for all tokens."""


def replays(request: EngineRequest) -> bool:
    """Whether a request that another engine began is generated again from its prompt: a grammar and penalties must see
    the whole output, which vLLM does not take. What was delivered is compared, and left out."""
    sampling = request.sampling
    depends = sampling.grammar is not None or sampling.presence_penalty or sampling.frequency_penalty
    return bool(request.output_token_ids) and bool(depends)


def to_sampling(request: EngineRequest, spec: EngineSpec, is_replay: bool) -> VllmSampling:
    """Converts what a request asks for. Raises Unsupported for what vLLM cannot do."""
    sampling, done = request.sampling, 0 if is_replay else len(request.output_token_ids)
    if sampling.reasoning_limit is not None:
        raise Unsupported("a bound of reasoning is not held by the engine vllm", param="thinking_token_budget")
    room = spec.max_model_length - request.token_count + (len(request.output_token_ids) if is_replay else 0)
    return VllmSampling(
        # vLLM has no request that only scores its prompt: the stream leaves out the token that it adds.
        max_tokens=max(1, min(sampling.max_tokens - done, room)),
        temperature=0.0 if sampling.is_greedy else sampling.temperature,
        top_k=sampling.top_k or NO_TOP_K,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=dict(sampling.logit_bias) or None,
        seed=None if sampling.seed is None else sampling.seed % 2**63,
        stop_token_ids=sorted(sampling.stop_token_ids),
        ignore_eos=sampling.ignore_eos,
        min_tokens=max(0, sampling.min_tokens - done),
        logprobs=sampling.logprob_count,
        prompt_logprobs=sampling.prompt_logprob_count,
        structured_outputs=None if sampling.grammar is None else to_structured_outputs(sampling.grammar),
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def to_structured_outputs(grammar: Grammar) -> StructuredOutputsParams:
    """Converts a grammar. Raises InvalidRequest for one that is no JSON where it has to be."""
    try:
        match grammar.kind:
            case GrammarKind.JSON_SCHEMA:
                return StructuredOutputsParams(json=_compact(json.loads(grammar.text)))
            case GrammarKind.JSON_OBJECT:
                return StructuredOutputsParams(json_object=True)
            case GrammarKind.REGEX:
                return StructuredOutputsParams(regex=grammar.text)
            case GrammarKind.CHOICE:
                return StructuredOutputsParams(choice=json.loads(grammar.text))
            case GrammarKind.LARK:
                return StructuredOutputsParams(grammar=grammar.text)
            case GrammarKind.LARK_WITH_SCHEMAS:
                return StructuredOutputsParams(grammar=_with_schemas_inside(grammar.text))
    except (ValueError, KeyError) as error:
        raise InvalidRequest(f"the grammar cannot be used: {error}", param=grammar.param) from None


def _compact(schema: Any) -> Any:
    return {**schema, "x-guidance": _COMPACT} if isinstance(schema, dict) else schema


def _with_schemas_inside(text: str) -> str:
    """Writes the JSON schemas that a Lark grammar names into it, as llguidance's Lark allows."""
    content = json.loads(text)
    schemas = content["schemas"]
    named = re.sub(r"@(\w+)", lambda found: found[1] if found[1] in schemas else found[0], content["lark"])
    rules = [f"{name}: %json {json.dumps(_compact(schema))}" for name, schema in schemas.items()]
    return "\n".join([named, *rules])
