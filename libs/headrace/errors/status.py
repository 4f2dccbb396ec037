"""Converts errors to google.rpc.Status and back. The reason decides, never the message."""

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from headrace.errors.table import ROWS, row_of, row_of_code, row_of_reason
from headrace.errors.tree import HeadraceError, InternalError

DOMAIN = "headrace"
DETAILS_KEY = "grpc-status-details-bin"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def to_status(error: BaseException) -> status_pb2.Status:
    """Converts an error to a message. Foreign exceptions reveal only that an error happened."""
    shown = error if isinstance(error, HeadraceError) else InternalError()
    row = row_of(shown)
    metadata = {key: value for key, value in (("param", shown.param), ("stage", shown.stage)) if value}
    status = status_pb2.Status(code=row.grpc_code.value[0], message=shown.message)
    info = error_details_pb2.ErrorInfo(reason=row.reason, domain=DOMAIN, metadata={**shown.details, **metadata})
    status.details.add().Pack(info)
    if shown.retry_after is not None:
        delay = Duration(nanos=int(shown.retry_after * 1e9) % 10**9, seconds=int(shown.retry_after))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def from_status(status: status_pb2.Status) -> HeadraceError:
    """Returns the error that a message describes."""
    row = row_of_code(_CODES.get(status.code, grpc.StatusCode.UNKNOWN))
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    retry_after: float | None = None
    for detail in status.details:
        if detail.Unpack(info):
            row = row_of_reason(info.reason) or row
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    details = dict(info.metadata)
    param, stage = details.pop("param", None), details.pop("stage", None)
    error_class = InternalError if row is ROWS[-1] else row.error
    return error_class(status.message or None, param=param, stage=stage, retry_after=retry_after, details=details)


def from_rpc_error(error: grpc.aio.AioRpcError) -> HeadraceError:
    """Returns the error behind a failed call."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return from_status(status_pb2.Status.FromString(value))
    return from_status(status_pb2.Status(code=error.code().value[0], message=error.details() or ""))
