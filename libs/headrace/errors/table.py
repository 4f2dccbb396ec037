"""One row per error: its names over gRPC and over HTTP. The most specific class comes first."""

from dataclasses import dataclass

import grpc

from headrace.errors import tree


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Wire format of one class of errors."""

    error: type[tree.HeadraceError]
    grpc_code: grpc.StatusCode
    http_status: int
    type: str
    """OpenAI's `error.type`."""
    code: str
    """OpenAI's `error.code`. In upper case, it is also the reason in google.rpc.ErrorInfo."""

    @property
    def reason(self) -> str:
        return self.code.upper()


_INVALID = "invalid_request_error"
_SERVER = "server_error"
_CODE = grpc.StatusCode

ROWS: tuple[ErrorRow, ...] = (
    ErrorRow(tree.Unsupported, _CODE.INVALID_ARGUMENT, 400, _INVALID, "unsupported_parameter"),
    ErrorRow(tree.ContextExceeded, _CODE.INVALID_ARGUMENT, 400, _INVALID, "context_length_exceeded"),
    ErrorRow(tree.ContentFiltered, _CODE.INVALID_ARGUMENT, 400, _INVALID, "content_filter"),
    ErrorRow(tree.UnsupportedMediaType, _CODE.INVALID_ARGUMENT, 415, _INVALID, "unsupported_media_type"),
    ErrorRow(tree.PayloadTooLarge, _CODE.INVALID_ARGUMENT, 413, _INVALID, "payload_too_large"),
    ErrorRow(tree.InvalidCheckpoint, _CODE.FAILED_PRECONDITION, 500, _SERVER, "invalid_checkpoint"),
    ErrorRow(tree.InvalidRequest, _CODE.INVALID_ARGUMENT, 400, _INVALID, "invalid_value"),
    ErrorRow(tree.Unauthenticated, _CODE.UNAUTHENTICATED, 401, "authentication_error", "invalid_api_key"),
    ErrorRow(tree.Forbidden, _CODE.PERMISSION_DENIED, 403, "permission_error", "permission_denied"),
    ErrorRow(tree.ModelNotFound, _CODE.NOT_FOUND, 404, _INVALID, "model_not_found"),
    ErrorRow(tree.NotFound, _CODE.NOT_FOUND, 404, _INVALID, "not_found"),
    ErrorRow(tree.RateLimited, _CODE.RESOURCE_EXHAUSTED, 429, "rate_limit_error", "rate_limit_exceeded"),
    ErrorRow(tree.Overloaded, _CODE.RESOURCE_EXHAUSTED, 503, _SERVER, "overloaded"),
    ErrorRow(tree.QueueTimeout, _CODE.DEADLINE_EXCEEDED, 408, "timeout_error", "queue_timeout"),
    ErrorRow(tree.UploadTimeout, _CODE.DEADLINE_EXCEEDED, 408, "timeout_error", "upload_timeout"),
    ErrorRow(tree.DeadlineExceeded, _CODE.DEADLINE_EXCEEDED, 504, "timeout_error", "deadline_exceeded"),
    ErrorRow(tree.StageFailed, _CODE.UNAVAILABLE, 503, _SERVER, "stage_failed"),
    ErrorRow(tree.WorkerStopping, _CODE.UNAVAILABLE, 503, _SERVER, "worker_stopping"),
    ErrorRow(tree.Unavailable, _CODE.UNAVAILABLE, 503, _SERVER, "unavailable"),
    ErrorRow(tree.NotEnabled, _CODE.UNIMPLEMENTED, 501, _SERVER, "not_enabled"),
    ErrorRow(tree.StorageFull, _CODE.RESOURCE_EXHAUSTED, 507, _SERVER, "storage_full"),
    ErrorRow(tree.RequestCancelled, _CODE.CANCELLED, 499, _INVALID, "request_cancelled"),
    ErrorRow(tree.AddressInUse, _CODE.FAILED_PRECONDITION, 500, _SERVER, "address_in_use"),
    ErrorRow(tree.ConfigError, _CODE.FAILED_PRECONDITION, 500, _SERVER, "config_error"),
    ErrorRow(tree.TaskDied, _CODE.INTERNAL, 500, _SERVER, "task_died"),
    ErrorRow(tree.HeadraceError, _CODE.INTERNAL, 500, _SERVER, "internal_error"),
)

_BY_REASON = {row.reason: row for row in ROWS}


def row_of(error: BaseException) -> ErrorRow:
    """Returns the row of an error. Foreign exceptions count as internal errors."""
    return next((row for row in ROWS if isinstance(error, row.error)), ROWS[-1])


def message_of(error: BaseException) -> str:
    """Returns the message that a client gets, with the stage that failed. Foreign exceptions reveal only that an error
    happened: their texts may hold anything."""
    shown = error if isinstance(error, tree.HeadraceError) else tree.InternalError()
    return shown.message if shown.stage is None else f"{shown.message} (stage: {shown.stage})"


def row_of_reason(reason: str) -> ErrorRow | None:
    return _BY_REASON.get(reason)


def row_of_code(code: grpc.StatusCode) -> ErrorRow:
    """Returns the most general row of a gRPC code, for errors without a reason: gRPC's own and other software's."""
    return next((row for row in reversed(ROWS) if row.grpc_code == code), ROWS[-1])
