"""The exception tree. The docstring of a leaf is its default message.

WorkerLost, SchedulerGone and GatewayStopping stay within a service; beyond it, they travel as their parent.

HeadraceError
├── InvalidRequest            the request can never succeed as it is (also a ValueError)
│   ├── Unsupported           a known field or feature that Headrace does not have
│   ├── ContextExceeded       the prompt, or what is to follow it, has more tokens than the model can read
│   ├── ContentFiltered       its text holds what a filter does not let through
│   ├── UnsupportedMediaType
│   └── PayloadTooLarge
├── Unauthenticated
├── Forbidden
├── NotFound
│   └── ModelNotFound
├── Overloaded                the platform's limit: a queue is full
├── RateLimited               the limit of an API key
├── Unavailable               it cannot be served now; trying again may help
│   ├── StageFailed           a stage was lost in the middle of a request and could not be replaced
│   │   └── WorkerLost        … which was the worker
│   ├── WorkerStopping        a worker gave the request up: it continues on another
│   ├── SchedulerGone
│   └── GatewayStopping
├── NotEnabled                the feature needs a setting first
├── StorageFull               the disk takes no more (also an OSError)
├── DeadlineExceeded          the request's time ran out while running
│   ├── QueueTimeout          … while still queued
│   └── UploadTimeout         … while its body was still being sent
├── RequestCancelled          the caller went away
├── ConfigError               a setting is unknown or bad: refuse to start
│   └── AddressInUse
├── InvalidCheckpoint         a model folder that cannot be served (also a ValueError)
└── InternalError             our bug
    └── TaskDied              … in a task that a service cannot do without: the process ends
"""

from collections.abc import Mapping

MAX_MESSAGE_LENGTH = 700
"""Maximum length of a message. gRPC carries a message twice in trailers of at most 16 KB."""
MAX_PARAM_LENGTH = 100


def _shortened(text: str, limit: int) -> str:
    """Cuts out the middle of a text that is too long: a message may quote a field of any length."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]} … ({len(text)} characters) … {text[-(limit // 2) :]}"


class HeadraceError(Exception):
    """Something went wrong in Headrace."""

    def __init__(
        self,
        message: str | None = None,
        *,
        param: str | None = None,
        stage: str | None = None,
        retry_after: float | None = None,
        details: Mapping[str, str] | None = None,
    ) -> None:
        self.message = _shortened(message or (type(self).__doc__ or "").strip(), MAX_MESSAGE_LENGTH)
        self.param = None if param is None else _shortened(param, MAX_PARAM_LENGTH)
        """The request field at fault."""
        self.stage = stage
        """Stage of the request's life that failed: queue, tokenize, schedule, prefill, decode and others."""
        self.retry_after = retry_after
        """Seconds after which a retry makes sense."""
        self.details = dict(details or {})
        super().__init__(self.message)


class InvalidRequest(HeadraceError, ValueError):
    """The request is not valid."""


class Unsupported(InvalidRequest):
    """Headrace does not support this."""


class ContextExceeded(InvalidRequest):
    """The prompt has more tokens than the model can read."""

    @classmethod
    def of_prompt(cls, count: str, limit: int, advice: str = "shorten it", *, param: str) -> "ContextExceeded":
        """Returns the error of a prompt of `count` tokens. Clients look for both phrases to learn that they must make
        a conversation shorter: OpenAI's and Anthropic's servers write them."""
        return cls(
            f"prompt is too long: {count} tokens > {limit} maximum; this model's maximum context length is {limit} "
            f"tokens: {advice}",
            param=param,
        )


class ContentFiltered(InvalidRequest):
    """The text holds what a filter does not let through."""


class UnsupportedMediaType(InvalidRequest):
    """The request body is of a kind that is not read here."""


class PayloadTooLarge(InvalidRequest):
    """The request body is too large."""


class Unauthenticated(HeadraceError):
    """The API key is missing or not valid."""


class Forbidden(HeadraceError):
    """The API key does not allow this."""


class NotFound(HeadraceError):
    """There is no such thing."""


class ModelNotFound(NotFound):
    """The model does not exist."""


class Overloaded(HeadraceError):
    """Too many requests are waiting; try again later."""


class RateLimited(HeadraceError):
    """The API key has reached one of its limits; try again later."""


class Unavailable(HeadraceError):
    """The service is not available right now; try again."""


class StageFailed(Unavailable):
    """A stage of the request failed and could not be replaced."""


class WorkerLost(StageFailed):
    """The worker of this request was lost."""


class WorkerStopping(Unavailable):
    """The worker of this request is about to stop."""


class SchedulerGone(Unavailable):
    """The scheduler does not answer."""


class GatewayStopping(Unavailable):
    """The gateway is about to stop; try again."""


class NotEnabled(HeadraceError):
    """The platform runs without this."""


class StorageFull(HeadraceError, OSError):
    """The disk of the platform is full: tell its operator, or delete what is stored there."""


class DeadlineExceeded(HeadraceError):
    """The request did not finish before its deadline."""


class QueueTimeout(DeadlineExceeded):
    """The request was still queued when its deadline passed."""


class UploadTimeout(DeadlineExceeded):
    """The body of the request did not arrive in time."""


class RequestCancelled(HeadraceError):
    """The request was cancelled."""


class ConfigError(HeadraceError):
    """The configuration is not valid."""


class AddressInUse(ConfigError):
    """The address is in use by another process."""


class InvalidCheckpoint(HeadraceError, ValueError):
    """The model folder is not a checkpoint that Headrace can serve."""


class InternalError(HeadraceError):
    """An internal error occurred. It was logged with the request id."""


class TaskDied(InternalError):
    """A task that the service cannot do without has failed."""
