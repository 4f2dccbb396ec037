"""Answers of /v1/completions."""

from collections.abc import Sequence

from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.openai.response import Choice, ResponseFormat
from headrace.gateway.openai.schema import CompletionBody
from headrace.gateway.openai.token_logprobs import Json, finite_logprob, token_text
from headrace.gateway.request.job import Job
from headrace.v1.generation_pb2 import TokenLogprob


class CompletionFormat(ResponseFormat):
    """Format of /v1/completions."""

    object_name = "text_completion"
    chunk_object_name = "text_completion"

    has_prompt_per_choice = True

    def __init__(self, job: Job, response_id: str, body: CompletionBody, echoed: Sequence[str] | None) -> None:
        super().__init__(job, response_id, body)
        self._echoed = echoed
        """Text of each prompt, if it is to be repeated."""

    def _echo(self, choice: Choice) -> str:
        return "" if self._echoed is None else self._echoed[choice.index // self._job.options.choice_count]

    def _choice(self, choice: Choice) -> Json:
        prompt_ids = choice.prompt if choice.prompt_logprobs else []
        entries = [*choice.prompt_logprobs, *choice.logprobs]
        token_ids = [*prompt_ids, *choice.token_ids]
        offset = 0 if choice.prompt_logprobs else len(self._echo(choice))
        return {
            "index": choice.index,
            "text": self._echo(choice) + "".join(choice.text),
            "logprobs": self._logprobs(entries, token_ids, offset),
        }

    def _delta(self, choice: Choice, piece: Piece, is_first: bool) -> Json:
        echo = self._echo(choice) if is_first else ""
        prompt_ids = choice.prompt if piece.prompt_logprobs else []
        entries = [*piece.prompt_logprobs, *piece.logprobs]
        offset = 0 if is_first else len(self._echo(choice)) + sum(map(len, choice.text))
        return {
            "index": choice.index,
            "text": echo + piece.text,
            "logprobs": self._logprobs(entries, [*prompt_ids, *piece.token_ids], offset),
        }

    def _logprobs(self, entries: Sequence[TokenLogprob], token_ids: Sequence[int], offset: int) -> Json | None:
        if not entries:
            return None
        texts = [token_text(self._job.vocabulary, token_id) for token_id in token_ids]
        offsets = [offset]
        for text in texts[:-1]:
            offsets.append(offsets[-1] + len(text))
        return {
            "tokens": [self._name(token_id) for token_id in token_ids],
            "token_logprobs": [finite_logprob(entry) for entry in entries],
            "top_logprobs": [self._top(entry) for entry in entries],
            "text_offset": offsets,
        }

    def _top(self, entry: TokenLogprob) -> Json | None:
        if not entry.HasField("chosen"):
            return None
        top = {self._name(scored.token_id): scored.logprob for scored in entry.alternatives}
        return top | {self._name(entry.chosen.token_id): entry.chosen.logprob}

    def _name(self, token_id: int) -> str:
        return token_text(self._job.vocabulary, token_id, self._names_by_id)
