"""Text side of one model: its tokenizer, its chat template and its special tokens."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from headrace.domain.conversation import Conversation
from headrace.domain.to_encode import INSTRUCT, TextToEncode
from headrace.errors import ContextExceeded, InvalidCheckpoint, InvalidRequest, Unsupported
from headrace.folder_text.folder_ends import end_token_ids
from headrace.folder_text.folder_tokenizer import read_tokenizer
from headrace.folder_text.pair_length import pair_token_counts
from headrace.folder_text.score_tokens import read_score_tokens
from headrace.folder_text.special_tokens import special_tokens
from headrace.folder_text.template_sources import template_sources
from headrace.gguf_text.gguf_tokenizer import GgufText
from headrace.tokenizer.prompts.pair_prompt import PairPrompt
from headrace.tokenizer.template.chat_template import ChatTemplate
from headrace.tokenizer.template.template_facts import TemplateFacts
from headrace.tokenizer.text.known_patterns import has_known_patterns
from headrace.tokenizer.text.longest_piece import longest_piece
from headrace.tokenizer.text.pieces import Pieces, pieces_of
from headrace.tokenizer.text_source import TextSource

MAX_CHARACTERS = 1000
KINDS = ("default", "tool_use")
"""Templates that are used: the second renders conversations with tools."""


class TextModel:
    """Encodes and decodes for one model. Safe to share between threads."""

    def __init__(self, name: str, source: Path, chat_template: str | None = None) -> None:
        """`source`: a Hugging Face folder or a GGUF file; `chat_template`: Jinja text that replaces its templates.
        Raises InvalidCheckpoint or Unsupported."""
        self.name = name
        if source.suffix == ".gguf":
            text = GgufText(source)
            self._tokenizer = text.tokenizer()
            sources, special = text.chat_templates, text.special_tokens
            self.eos_token_ids = text.eos_token_ids
        else:
            self._tokenizer = read_tokenizer(source)
            sources, special = template_sources(source), special_tokens(source)
            self.eos_token_ids = end_token_ids(source)
        if chat_template is not None:
            sources = {KINDS[0]: chat_template}
        self._special_tokens = special
        templates = {name: ChatTemplate(text, special) for name, text in sources.items() if name in KINDS}
        self._template, self._tool_template = (templates.get(kind) for kind in KINDS)
        scores = source.suffix != ".gguf" and read_score_tokens(source) is not None
        self._pair_prompt = PairPrompt(self._pair_renderer()) if scores else None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def _pair_renderer(self) -> Callable[[Conversation], str] | None:
        template = self._template
        return template.render if template is not None and template.facts.has_pair_roles else None

    @property
    def has_chat_template(self) -> bool:
        return self._template is not None

    def encode(self, text: str, add_special_tokens: bool, max_token_count: int | None = None) -> list[int]:
        """Encodes a text. If that makes more than `max_token_count` ids, the end of the text is left out, and of
        special tokens only the ones that do not fit on their own."""
        token_ids = list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)
        if max_token_count is None or len(token_ids) <= max_token_count:
            return token_ids
        special_count = self._tokenizer.num_special_tokens_to_add(False) if add_special_tokens else 0
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        encoding.truncate(max(0, max_token_count - special_count))
        return list(self._tokenizer.post_process(encoding, None, add_special_tokens).ids)[:max_token_count]

    def encode_text(self, wanted: TextToEncode) -> list[int]:
        """Encodes a text or a pair of texts. Raises Unsupported for an instruction that the model has no place for."""
        if wanted.pair_text is None:
            return self.encode(wanted.text, wanted.add_special_tokens, wanted.max_token_count)
        texts, limit = (wanted.text, wanted.pair_text), wanted.max_token_count
        if self._pair_prompt is not None:
            around = self._pair_prompt.around(wanted.text, wanted.instruction)
            return self._encode_question(around, wanted.pair_text, limit)
        if wanted.instruction:
            message = f"model {self.name} reads two texts and no instruction: leave instruct out, or ask another model"
            raise Unsupported(message, param=INSTRUCT)
        return self._encode_pair(texts, wanted.add_special_tokens, limit)

    def _encode_pair(self, texts: tuple[str, str], add_special_tokens: bool, max_token_count: int | None) -> list[int]:
        """Encodes a pair. If that makes more than `max_token_count` ids, the end of the longer text is left out until
        both are equally long, then that of both."""
        first, second = (self._tokenizer.encode(text, add_special_tokens=False) for text in texts)
        if max_token_count is not None:
            special_count = self._tokenizer.num_special_tokens_to_add(True) if add_special_tokens else 0
            counts = pair_token_counts(len(first), len(second), max(0, max_token_count - special_count))
            for encoding, count in zip((first, second), counts, strict=True):
                encoding.truncate(count)
        return list(self._tokenizer.post_process(first, second, add_special_tokens).ids)[:max_token_count]

    def _encode_question(self, around: tuple[str, str], document: str, max_token_count: int | None) -> list[int]:
        """Encodes a document between the texts `around` it. If that makes more than `max_token_count` ids, the end of
        the document is left out."""
        before, after = around
        head, tail = (self.encode(text, add_special_tokens=False) for text in (before + document, after))
        room = len(head) if max_token_count is None else max(0, max_token_count - len(tail))
        return [*head[:room], *tail][:max_token_count]

    @property
    def answer_format(self) -> TemplateFacts:
        """Facts of the template that renders tools."""
        template = self._tool_template or self._template
        return TemplateFacts() if template is None else template.facts

    def render(self, conversation: Conversation) -> str:
        """Renders a conversation as text. Raises Unsupported when the model has no chat template."""
        if conversation.chat_template:
            return self._template_of(conversation.chat_template).render(conversation)
        template = (self._tool_template if conversation.tools else None) or self._template
        if template is None:
            message = f"model {self.name} has no chat template; use /v1/completions"
            raise Unsupported(message, param="messages")
        return template.render(conversation)

    def _template_of(self, source: str) -> ChatTemplate:
        """Compiles the template of a request. Raises InvalidRequest."""
        try:
            return ChatTemplate(source, self._special_tokens, owner="request")
        except InvalidCheckpoint as error:
            raise InvalidRequest(error.message, param="chat_template") from None

    def opens_reasoning(self, rendered: str) -> bool:
        """Whether a rendered conversation ends where a reasoning section has just begun."""
        start = self.answer_format.reasoning_start
        return bool(start) and rendered.rstrip().endswith(start)

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool) -> str:
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens))

    def check_length(self, text: str, token_count: int) -> None:
        """Raises InvalidRequest for a text that must have more than `token_count` tokens, whatever they are. A token of
        no bounded length is taken for MAX_CHARACTERS at most."""
        if self.longest_piece is None and len(text) > token_count * MAX_CHARACTERS:
            least = f"at least {len(text) // MAX_CHARACTERS}"
            advice = f"it has {len(text)} characters, more than {MAX_CHARACTERS} for each: shorten it"
            raise ContextExceeded.of_prompt(least, token_count, advice, param="prompt")
        if self.longest_piece is not None and len(text) > token_count * self.longest_piece:
            least = f"at least {-(-len(text) // self.longest_piece)}"
            advice = (
                f"it has {len(text)} characters, and no token stands for more than {self.longest_piece}: shorten it"
            )
            raise ContextExceeded.of_prompt(least, token_count, advice, param="prompt")

    @cached_property
    def is_predictable(self) -> bool:
        """Whether the time for a text is known to be in proportion to its length."""
        return has_known_patterns(self._tokenizer)

    @cached_property
    def longest_piece(self) -> int | None:
        """Maximum number of characters that a token can stand for, if there is such a bound."""
        return longest_piece(self._tokenizer)

    @cached_property
    def pieces(self) -> Pieces:
        """Bytes of every token. Raises Unsupported."""
        return pieces_of(self._tokenizer)

    @cached_property
    def vocabulary_size(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))


def text_model(name: str, source: TextSource) -> TextModel:
    """Reads the text side of a model. Raises InvalidCheckpoint or Unsupported."""
    return TextModel(name, source.path, source.read_template())
