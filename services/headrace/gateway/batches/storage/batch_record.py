"""A batch, as it stands."""

from enum import StrEnum
from typing import Any

import msgspec


class BatchStatus(StrEnum):
    """Stages of a batch, as OpenAI's API names them."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (BatchStatus.COMPLETED, BatchStatus.CANCELLED, BatchStatus.EXPIRED, BatchStatus.FAILED)


class BatchRecord(msgspec.Struct, kw_only=True):
    """Everything that is known of a batch but its lines. Times are in seconds since 1970."""

    id: str
    tenant: str
    key: dict[str, Any] | None
    """Record of the key that made it, without what its secret could be tested against. None: no key was needed."""
    endpoint: str
    input_file_id: str
    completion_window: str
    created: int
    expires: int
    metadata: dict[str, str] | None = None
    output_seconds: int | None = None
    """Seconds for which its output is kept. None: as long as any file."""
    status: BatchStatus = BatchStatus.VALIDATING
    times: dict[str, int] = msgspec.field(default_factory=dict)
    """Time at which each later stage began, by its name."""
    model: str | None = None
    errors: list[dict[str, Any]] = msgspec.field(default_factory=list)
    output_file_id: str | None = None
    error_file_id: str | None = None
    total_count: int = 0
    completed_count: int = 0
    failed_count: int = 0
    fence: int = 0
    """Fence of the gateway that wrote it last."""

    def described(self) -> dict[str, Any]:
        """Returns the batch as OpenAI's API writes it."""
        stages = (stage for stage in BatchStatus if stage is not BatchStatus.VALIDATING)
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "model": self.model,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file_id,
            "completion_window": self.completion_window,
            "status": str(self.status),
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created,
            "expires_at": self.expires,
            **{f"{stage}_at": self.times.get(stage) for stage in stages},
            "request_counts": {
                "total": self.total_count,
                "completed": self.completed_count,
                "failed": self.failed_count,
            },
            "metadata": self.metadata,
        }
