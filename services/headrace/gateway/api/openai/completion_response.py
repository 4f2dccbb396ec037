"""Answers of /v1/completions."""

from collections.abc import Iterable, Sequence
from itertools import chain

from headrace.gateway.api.openai.response import Choice, ResponseFormat
from headrace.gateway.api.openai.schema import CompletionBody
from headrace.gateway.api.openai.token_logprobs import Json, finite_logprob, token_text
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.job.job import Job
from headrace.gateway.text.detokenizer import Detokenizer
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
        echo, prompt_ids = self._echo(choice), choice.prompt if choice.prompt_logprobs else []
        offsets = [*self._offsets_before(echo, prompt_ids), *self._offsets_after(echo, choice.prompt, choice.token_ids)]
        entries = [*choice.prompt_logprobs, *choice.logprobs]
        return {
            "index": choice.index,
            "text": echo + "".join(choice.text),
            "logprobs": self._logprobs(entries, [*prompt_ids, *choice.token_ids], offsets),
        }

    def _delta(self, choice: Choice, piece: Piece, is_first: bool) -> Json:
        echo, prompt_ids = self._echo(choice), choice.prompt if piece.prompt_logprobs else []
        said = echo + "".join(choice.text)
        follows = chain(choice.prompt, choice.token_ids)
        offsets = [*self._offsets_before(echo, prompt_ids), *self._offsets_after(said, follows, piece.token_ids)]
        entries = [*piece.prompt_logprobs, *piece.logprobs]
        return {
            "index": choice.index,
            "text": (echo if is_first else "") + piece.text,
            "logprobs": self._logprobs(entries, [*prompt_ids, *piece.token_ids], offsets),
        }

    def _offsets_before(self, echo: str, prompt_ids: Sequence[int]) -> list[int]:
        """Returns the places of a prompt's tokens in its text. Tokens that begin it may stand for more than the text
        has: a mark of the beginning, a space that the encoding adds."""
        offsets, end = [], len(echo)
        for token_id in reversed(prompt_ids):
            end = max(0, end - len(token_text(self._job.vocabulary, token_id)))
            offsets.append(end)
        return offsets[::-1]

    def _offsets_after(self, said: str, follows: Iterable[int], token_ids: Sequence[int]) -> list[int]:
        """Returns the places of tokens in the text that they continue after `said`, which `follows` stand for."""
        job, end, offsets = self._job, len(said), list[int]()
        detokenizer = Detokenizer(job.vocabulary, job.options.skips_special_tokens, follows=follows)
        for token_id in token_ids:
            offsets.append(end)
            end += len(detokenizer.push([token_id]))
        return offsets

    def _logprobs(self, entries: Sequence[TokenLogprob], token_ids: Sequence[int], offsets: list[int]) -> Json | None:
        if not entries:
            return None
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
