"""The inboxes of all requests that wait for tokens."""

from collections import defaultdict
from collections.abc import Sequence, Set

from headrace.errors import ModelNotFound
from headrace.errors.tree import GatewayStopping
from headrace.gateway.fleet.inboxes.inbox import Inbox
from headrace.v1.worker_pb2 import TokenDelta


class Inboxes:
    """The open inboxes of this gateway, by request id and by worker."""

    def __init__(self) -> None:
        self._inboxes: dict[str, Inbox] = {}
        self._by_worker: defaultdict[str, dict[str, Inbox]] = defaultdict(dict)
        self._stopped = False

    def __len__(self) -> int:
        return len(self._inboxes)

    def open(self, request_id: str, attempt: int, models: Sequence[str] = ()) -> Inbox:
        """Opens the inbox of one attempt. Raises GatewayStopping."""
        if self._stopped:
            raise GatewayStopping(stage="queue", retry_after=1)
        inbox = self._inboxes[request_id] = Inbox(request_id, attempt, models)
        return inbox

    def stop(self) -> None:
        """Ends every request with a typed error, and accepts no more."""
        self._stopped = True
        for inbox in list(self._inboxes.values()):
            inbox.stop()

    def give_up(self, models: Set[str]) -> None:
        """Ends the requests for models that are served no longer, as far as no worker has them."""
        for inbox in list(self._inboxes.values()):
            if not models.isdisjoint(inbox.models):
                inbox.give_up(ModelNotFound(f"model {inbox.models[0]!r} was unloaded", param="model"))

    def assign(self, inbox: Inbox, worker_id: str) -> None:
        """Notes which worker the deltas come from."""
        inbox.worker_id = worker_id
        self._by_worker[worker_id][inbox.request_id] = inbox

    def close(self, inbox: Inbox) -> None:
        if self._inboxes.get(inbox.request_id) is inbox:
            del self._inboxes[inbox.request_id]
        if inbox.worker_id is not None and (assigned := self._by_worker.get(inbox.worker_id)) is not None:
            if assigned.get(inbox.request_id) is inbox:
                del assigned[inbox.request_id]
            if not assigned:
                del self._by_worker[inbox.worker_id]

    def find(self, delta: TokenDelta) -> Inbox | None:
        """Returns the inbox that a delta belongs to, or None if its attempt has no reader."""
        inbox = self._inboxes.get(delta.request_id)
        return inbox if inbox is not None and inbox.attempt == delta.attempt else None

    def of_worker(self, worker_id: str) -> list[Inbox]:
        return list(self._by_worker.get(worker_id, {}).values())
