"""TextSource of a model."""

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import InvalidCheckpoint

MAX_TEMPLATE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TextSource:
    """Files with the tokenizer and the chat template of a model."""

    path: Path
    """A Hugging Face folder, or a GGUF file."""
    chat_template: Path | None = None
    """File with a Jinja template, which replaces those of the model. None: these are used."""

    def read_template(self) -> str | None:
        """Returns the chat template that replaces those of the model, if there is one. Raises InvalidCheckpoint."""
        if self.chat_template is None:
            return None
        try:
            with self.chat_template.open("rb") as file:
                content = file.read(MAX_TEMPLATE_BYTES + 1)
            if len(content) > MAX_TEMPLATE_BYTES:
                raise InvalidCheckpoint(
                    f"the chat template {self.chat_template} has more than {MAX_TEMPLATE_BYTES} bytes"
                )
            return content.decode()
        except OSError as error:
            raise InvalidCheckpoint(f"cannot read the chat template {self.chat_template}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidCheckpoint(f"the chat template {self.chat_template} is no text in UTF-8") from None
