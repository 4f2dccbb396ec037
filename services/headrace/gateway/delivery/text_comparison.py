"""Comparison of texts, for every API: by the score of each pair, where the model has been trained to score pairs, and
otherwise by the cosine of the angle between their embeddings."""

from functools import partial

from headrace.domain.to_encode import INSTRUCT
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.preparation import SEQUENCES_AT_ONCE
from headrace.gateway.delivery.streams.joined import joined
from headrace.gateway.job.compared_texts import ComparedTexts, sigmoid
from headrace.gateway.job.embedding_job import EmbeddingJob, EmbeddingOptions
from headrace.gateway.request.envelope import Envelope


async def compare(
    pipeline: Pipeline,
    model: str,
    compared: ComparedTexts,
    options: EmbeddingOptions,
    envelope: Envelope,
    *,
    is_raw: bool = False,
) -> tuple[EmbeddingJob, list[float]]:
    """Returns what was computed, and how close the texts of each pair are. `is_raw`: whether scores of pairs are not
    made probabilities. Raises HeadraceError: Unsupported for an instruction that the model does not take."""
    prepare, scores_pairs = pipeline.prepare, pipeline.fleet.comparing_model(model).scores_pairs
    if compared.instruction and not scores_pairs:
        message = f"model {model} makes embeddings and takes no instruction: write it into the query"
        raise Unsupported(message, param=INSTRUCT)
    try:
        if scores_pairs:
            job = await prepare.pairs(model, compared.pairs, options, envelope, compared.instruction)
        else:
            job = await prepare.embeddings(model, [*compared.first, *compared.second], options, envelope)
    except InvalidRequest as error:
        if error.param != "input":
            raise
        raise type(error)(error.message, param=compared.field, details=error.details) from None
    calls = [partial(pipeline.embedding, sequence) for sequence in job.sequences()]
    vectors = [embedding.values for embedding in await joined(calls, SEQUENCES_AT_ONCE)]
    envelope.account.finish()
    if scores_pairs:
        return job, [score if is_raw else sigmoid(score) for (score,) in vectors]
    return job, compared.cosines(vectors)
