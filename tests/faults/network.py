"""Faults of the network between services, on a platform whose every pair is linked through a proxy."""

from collections.abc import Callable

from tests.faults.fault import Act, Fault, Promise, Scene
from tests.faults.linked_platform import LinkedPlatform
from tests.faults.shapes import LINKED
from tests.harness.connection import Link

CUT_SECONDS = 6.5
"""Longer than any silence after which a service is to be given up."""
BOTH_WAYS = [("gateway", "tokenizer"), ("gateway", "cache"), ("scheduler", "cache"), ("cache", "nats")]
EACH_WAY = [
    ("gateway", "scheduler"),
    ("gateway", "worker-0"),
    ("scheduler", "worker-0"),
    ("gateway", "nats"),
    ("scheduler", "nats"),
    ("worker-0", "nats"),
]
"""Pairs between which one way alone makes a difference: both are cut, and each of them."""


def platform_in(scene: Scene) -> LinkedPlatform:
    assert isinstance(scene.platform, LinkedPlatform)
    return scene.platform


def during(source: str, target: str, disturb: Callable[[Link], None], seconds: float = CUT_SECONDS) -> Act:
    """Disturbs one link for a while, then heals it."""

    async def act(scene: Scene) -> None:
        link = platform_in(scene).link(source, target)
        scene.mark()
        disturb(link)
        await scene.pause(seconds)
        scene.mark()
        link.heal()

    return act


def once(disturb: Callable[[Link], None]) -> Act:
    """Does something to every link at once."""

    async def act(scene: Scene) -> None:
        scene.mark()
        for link in platform_in(scene).links():
            disturb(link)

    return act


def on_all(latency: float = 0.0, loss: float = 0.0) -> Act:
    """Slows every link down for a while."""

    async def act(scene: Scene) -> None:
        scene.mark()
        links = platform_in(scene).links()
        for link in links:
            for way in (link.there, link.back):
                way.latency, way.loss = latency, loss
        await scene.pause(CUT_SECONDS)
        for link in links:
            link.heal()

    return act


def _cuts() -> list[Fault]:
    faults = []
    for source, target in [*BOTH_WAYS, *EACH_WAY]:
        promise = Promise(stall=2.0 if (source, target) == ("gateway", "worker-0") else 1.0)
        ways: dict[str, Callable[[Link], None]] = {f"{source} | {target} cut": Link.partition}
        if (source, target) in EACH_WAY:
            ways |= {f"{source} > {target} cut": Link.cut_there, f"{source} < {target} cut": Link.cut_back}
        faults += [Fault(name, LINKED, during(source, target, cut), promise) for name, cut in ways.items()]
    return faults


FAULTS = [
    *_cuts(),
    Fault("latency of 50 ms everywhere", LINKED, on_all(latency=0.05), Promise(recovery=None)),
    Fault("loss of 2 % everywhere", LINKED, on_all(loss=0.02), Promise(recovery=None)),
    Fault("every connection reset", LINKED, once(Link.reset), Promise(stall=1.0)),
    # A worker counts as lost after 1.6 to 1.8 s, and then a place is asked for over connections that are as dead.
    Fault("every connection half open", LINKED, once(Link.half_open), Promise(stall=2.5)),
]
