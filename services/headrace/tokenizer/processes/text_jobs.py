"""Jobs of a text process: encodes, renders and decodes with the models that it loaded itself."""

import contextlib
import ctypes
import os
import pickle
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from headrace.domain.conversation import Conversation
from headrace.domain.encoded import Encoded
from headrace.domain.to_encode import TextToEncode, ToEncode
from headrace.errors import InvalidRequest
from headrace.tokenizer.processes.work_bound import TimeSpent, bounded_work
from headrace.tokenizer.text.text_model import TextModel, text_model
from headrace.tokenizer.text_source import TextSource

_PR_SET_PDEATHSIG = 1
RENDERING_BYTES = 256 * 1024 * 1024
"""Bytes of memory that rendering one conversation may take."""
_models: dict[str, TextModel] = {}


def serve(connection: "Connection[Any, bytes]", sources: Mapping[str, TextSource], parent: int) -> None:
    """Does the jobs that come as pickled pairs of a function and its arguments, until the other side closes. Writes for
    each the size of its answer and the answer: whether it failed, and its result or error."""
    prepare(sources, parent)
    with contextlib.suppress(EOFError, OSError):
        while True:
            job, args = pickle.loads(connection.recv_bytes())  # noqa: S301 - it comes from the service itself
            try:
                answer = (False, job(*args))
            except Exception as error:  # noqa: BLE001 - it is raised where the job was asked for
                answer = (True, error)
            except BaseException as error:  # noqa: BLE001 - the tokenizers' library ends so where it gives up
                answer = (True, InvalidRequest(f"the tokenizer of this model fails on the text: {error}"))
            content = pickle.dumps(answer)
            connection.send_bytes(len(content).to_bytes(8))
            connection.send_bytes(content)


def prepare(sources: Mapping[str, TextSource], parent: int) -> None:
    """Loads the tokenizers, and ties this process's life to the service: a killed service leaves no orphan."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    _models.update({name: text_model(name, source) for name, source in sources.items()})


def encode(wanted: ToEncode, seconds: float) -> Encoded:
    """Returns a text or a conversation as token ids. Raises InvalidRequest when a conversation is certainly too long,
    and when its template takes more than `seconds`, or too much memory."""
    model = _models[wanted.model]
    if isinstance(wanted, TextToEncode):
        return Encoded(model.encode_text(wanted))
    text = _rendered(model, wanted.conversation, seconds)
    if wanted.context_token_count is not None:
        model.check_length(text, wanted.context_token_count)
    return Encoded(model.encode(text, add_special_tokens=False), model.opens_reasoning(text))


def decode(model: str, token_ids: Sequence[int], skip_special_tokens: bool) -> str:
    """Returns the text of token ids."""
    return _models[model].decode(token_ids, skip_special_tokens)


def _rendered(model: TextModel, conversation: Conversation, seconds: float) -> str:
    owner = "request" if conversation.chat_template else "model"
    try:
        with bounded_work(seconds, RENDERING_BYTES):
            return model.render(conversation)
    except TimeSpent:
        raise InvalidRequest(
            f"the chat template of this {owner} took more than {seconds:g} s for this conversation, the limit of the "
            "setting tokenizer.template_seconds: shorten the conversation",
            param="messages",
        ) from None
    except MemoryError:
        raise InvalidRequest(
            f"the chat template of this {owner} took more than {RENDERING_BYTES} bytes of memory for this "
            "conversation: shorten it",
            param="messages",
        ) from None
