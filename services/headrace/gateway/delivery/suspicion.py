"""Suspicion that one sequence is what ends the workers it runs on."""

from headrace.domain.deadline import Deadline
from headrace.domain.ids import SequenceId
from headrace.errors import InternalError
from headrace.errors.tree import WorkerLost
from headrace.gateway.fleet.quarantine import SUSPECT_LOSSES, Quarantine


class Suspicion:
    """Counts the workers that were lost in a row without a new token, and takes turns with other suspects."""

    def __init__(self, request_id: SequenceId, quarantine: Quarantine) -> None:
        self._request_id = request_id
        self._quarantine = quarantine
        self._loss_count = 0
        self._in_quarantine = False

    async def enter_quarantine(self, deadline: Deadline) -> None:
        """Makes sure, if this sequence is a suspect, that no other suspect runs until its next token. Raises
        DeadlineExceeded."""
        if self._loss_count >= SUSPECT_LOSSES:
            await self._quarantine.enter(deadline)
            self._in_quarantine = True

    def leave_quarantine(self) -> None:
        """Gives the turn to the next suspect, if this one had it."""
        if self._in_quarantine:
            self._in_quarantine = False
            self._quarantine.leave()

    def note_loss(self, loss: WorkerLost) -> None:
        """Counts a worker that was lost while it ran this sequence. Raises InternalError if the sequence is to
        blame."""
        self._loss_count += 1
        if self._loss_count > SUSPECT_LOSSES:
            message = (
                f"{self._loss_count} workers in a row were lost while they computed the same token of request "
                f"{self._request_id}, the last of them alone with it: it is not tried again"
            )
            raise InternalError(message, stage=loss.stage) from None

    def clear(self) -> None:
        """Clears the suspicion: after a new token, this sequence did not cause the losses."""
        self._loss_count = 0
        self.leave_quarantine()
