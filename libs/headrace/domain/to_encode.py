"""Work of a tokenizer: a text or a conversation that is to become token ids."""

from dataclasses import dataclass

from headrace.domain.conversation import Conversation

INSTRUCT = "instruct"
"""Field of the client's request that has the instruction of pairs."""


@dataclass(frozen=True, slots=True)
class TextToEncode:
    """Text for the tokenizer of a model."""

    model: str
    text: str
    add_special_tokens: bool = True
    max_token_count: int | None = None
    """Number of tokens after which the rest is left out. None: all are wanted."""
    context_token_count: int | None = None
    """Number of tokens that fit. A text that is certain to have more may be refused."""
    pair_text: str | None = None
    """Second text, which the model reads together with the first as a pair. None: there is one text."""
    instruction: str = ""
    """Text that says what to look for in the pair, for models that take one. Empty: the one they were trained on."""

    @property
    def character_count(self) -> int:
        return len(self.text) + len(self.pair_text or "") + len(self.instruction)


@dataclass(frozen=True, slots=True)
class ConversationToEncode:
    """Conversation for the chat template and the tokenizer of a model."""

    model: str
    conversation: Conversation
    context_token_count: int | None = None
    """Number of tokens that fit. A conversation that is certain to have more may be refused."""

    @property
    def character_count(self) -> int:
        return self.conversation.character_count


ToEncode = TextToEncode | ConversationToEncode
