"""Permissions of each role in NATS: what services publish and receive over the bus, and nothing else.

https://docs.nats.io/running-a-nats-service/configuration/securing_nats/authorization
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.bus import subjects
from headrace.bus.bus import BATCHES, LEASES, LIMITS, REGISTRY, Store
from headrace.security.certificates.role import OPERATOR

API = "$JS.API"
ALL = f"{subjects.PREFIX}.>"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects, with wildcards, on which a role may publish, and those to which it may subscribe."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox_prefix(role: str) -> str:
    """Returns the first token of the subjects on which a role gets answers. No other role may listen there."""
    return f"_INBOX_{role}"


def permissions_of(role: str) -> Permissions:
    """Returns the permissions of a role that connects to NATS."""
    said, heard, stores = _USES[role]
    answers = f"{inbox_prefix(role)}.>"
    announced = () if role == OPERATOR else (*_announcements(role), *_registers(role))
    kept = tuple(subject for store in stores for subject in (*_creates(store), *_reads(store), *_writes(role, store)))
    return Permissions((*said, *announced, *kept, *_finds(REGISTRY), *_lists(role)), (*heard, answers))


def makes(role: str, store: Store) -> bool:
    """Whether a role makes a bucket where there is none yet."""
    return store in _USES[role][2]


def _announcements(role: str) -> tuple[str, ...]:
    return subjects.registered(role), subjects.deregistered(role)


def _finds(store: Store) -> tuple[str, ...]:
    return (f"{API}.STREAM.INFO.{store.stream}",)


def _creates(store: Store) -> tuple[str, ...]:
    """Subjects that make a bucket. A role that only writes waits until another has made it: the maker of a stream
    chooses what goes into it."""
    return f"{API}.INFO", *(f"{API}.STREAM.{verb}.{store.stream}" for verb in ("CREATE", "UPDATE")), *_finds(store)


def _reads(store: Store) -> tuple[str, ...]:
    return f"{API}.STREAM.MSG.GET.{store.stream}", f"{API}.DIRECT.GET.{store.stream}.>"


def _writes(role: str, store: Store) -> tuple[str, ...]:
    """Returns the keys of a bucket that a role writes: of the registry its own alone."""
    return _registers(role) if store == REGISTRY else (f"$KV.{store.bucket}.>",)


def _registers(role: str) -> tuple[str, ...]:
    return (f"$KV.{REGISTRY.bucket}.{role}.>",)


def _lists(role: str) -> tuple[str, ...]:
    """Subjects that list the keys of the registry, with a consumer that lives as long as the list."""
    if role not in _LISTING:
        return ()
    stream = REGISTRY.stream
    consumer = (f"{API}.CONSUMER.{verb}.{stream}" for verb in ("CREATE", "DELETE", "INFO"))
    return (*_reads(REGISTRY), *(subject for one in consumer for subject in (one, f"{one}.>")), f"$JS.FC.{stream}.>")


_LISTING = frozenset({"gateway", "scheduler", OPERATOR})
_USES: dict[str, tuple[Sequence[str], Sequence[str], Sequence[Store]]] = {
    "gateway": (
        # Gateways ask each other, and answer where the other listens for answers.
        (subjects.REQUESTS_ASKED, f"{inbox_prefix('gateway')}.>"),
        (
            subjects.WORKER_HEARTBEAT,
            subjects.WORKER_DEREGISTERED,
            subjects.SCHEDULER_HEARTBEAT,
            subjects.registered("gateway"),
            subjects.deregistered("gateway"),
            subjects.REQUESTS_ASKED,
        ),
        (LIMITS, BATCHES, REGISTRY),
    ),
    "tokenizer": ((), (), ()),
    "scheduler": (
        (subjects.SCHEDULER_HEARTBEAT,),
        (subjects.WORKER_HEARTBEAT, subjects.WORKER_DEREGISTERED, subjects.SCHEDULER_HEARTBEAT),
        (LEASES, REGISTRY),
    ),
    "cache": ((), (subjects.BLOCKS_CHANGED, subjects.WORKER_DEREGISTERED), ()),
    "worker": ((subjects.WORKER_HEARTBEAT, subjects.BLOCKS_CHANGED), (), ()),
    OPERATOR: ((), (ALL,), ()),
}
"""Patterns that a role publishes, patterns that it subscribes to, and buckets that it makes, reads and writes."""
