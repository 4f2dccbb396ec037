"""Policy of residency without threads, clock or I/O: which model moves next.

Requests wait in line by model, the model whose first request is oldest first. It is brought in as soon as there is
room; if there is none, models that have nothing to do leave in the order in which they were last used (LRU), but no
pinned ones nor any that came a moment ago. Where all are busy, the one that has been awake longest gets no new requests
(it is draining), and when that takes too long it sleeps in the middle of its requests. Each time in a row that this
happens it is left twice as much time, so that requests whose prompts take long to read again come to an end. A model
that had no request for its idle time leaves memory altogether, if there is such a time.
"""

import math
from collections.abc import Iterable, Mapping

from headrace.engine.residency.policy.move import Move, MoveKind
from headrace.engine.residency.policy.move_times import MoveTimes
from headrace.engine.residency.policy.residence import Residence
from headrace.engine.residency.policy.residency_limits import ResidencyLimits
from headrace.engine.residency.policy.resident import Resident
from headrace.errors.tree import ConfigError

MAX_DOUBLINGS = 10
"""Times that the time for which a busy model is left alone doubles."""


class Residency:
    """Keeps both budgets. One move is under way at a time, from `begin` to `finish`, `abandon` or `lose`."""

    def __init__(self, limits: ResidencyLimits, residents: Iterable[Resident]) -> None:
        """Raises ConfigError if a model can never be awake beside the pinned ones."""
        self._limits = limits
        self._residents = {resident.name: resident for resident in residents}
        self.times = MoveTimes()
        self.draining: str | None = None
        """Model that gets no new requests, so that it can leave soon."""
        for resident in self._residents.values():
            self._check_size(resident)

    @property
    def residents(self) -> Mapping[str, Resident]:
        """Models by name."""
        return self._residents

    @property
    def awake_bytes(self) -> int:
        """Bytes of the device that are taken, or promised to a move."""
        return sum(resident.held_awake_bytes for resident in self._residents.values())

    @property
    def asleep_bytes(self) -> int:
        """Bytes of host memory that are taken, or promised to a move."""
        return sum(resident.held_asleep_bytes for resident in self._residents.values())

    def pin(self, name: str, *, is_pinned: bool) -> None:
        """Has a model stay awake from now on, or take turns. Raises ConfigError, and changes nothing, where it or
        another one could then never be awake."""
        resident = self._residents[name]
        before, resident.is_pinned = resident.is_pinned, is_pinned
        try:
            for each in self._residents.values():
                self._check_size(each)
        except ConfigError:
            resident.is_pinned = before
            raise

    def begin(self, now: float) -> Move | None:
        """Chooses the next move and counts it as under way. None: there is nothing to do, or it has to wait."""
        move = self._choose(now)
        if move is not None:
            self._residents[move.name].destination = move.kind.target
        return move

    def finish(self, move: Move, seconds: float, now: float) -> None:
        """Ends a move that took so many seconds."""
        resident = self._residents[move.name]
        resident.residence, resident.destination = move.kind.target, None
        self.times.note(move, seconds)
        if move.kind is MoveKind.SLEEP:
            resident.interruption_count = resident.interruption_count + 1 if resident.is_busy else 0
        if resident.residence is Residence.AWAKE:
            resident.awake_since = resident.used_time = now
        if self.draining == move.name:
            self.draining = None

    def abandon(self, move: Move) -> None:
        """Ends a move that did not take place: the model is where it was."""
        self._residents[move.name].destination = None

    def lose(self, name: str, now: float) -> None:
        """Notes that a model is nowhere but on disk, whatever was meant to happen. It is not tried again at once."""
        resident = self._residents[name]
        resident.residence, resident.destination = Residence.ON_DISK, None
        resident.is_busy, resident.waiting_since = False, None
        resident.barred_until = now + self._limits.retry_seconds
        if self.draining == name:
            self.draining = None

    def spare_move(self, name: str) -> Move | None:
        """Begins a move that frees memory for a model for which the system had none, whatever the budgets say: of a
        model asleep, then of one that is awake, idle and not pinned. None: there is none left."""
        others = [one for one in self._by_use() if one.name != name and not one.is_busy and one.destination is None]
        asleep = [one for one in others if one.residence is Residence.ASLEEP]
        awake = [one for one in others if one.residence is Residence.AWAKE and not one.is_pinned]
        first = next(iter((*asleep, *awake)), None)
        if first is None:
            return None
        first.destination = Residence.ON_DISK
        return Move(MoveKind.DROP, first.name)

    def warm_move(self) -> Move | None:
        """Begins a move that fills the device at the start: of pinned models, then of those asleep. None: nothing more
        fits."""
        away = [one for one in self._residents.values() if one.residence is not Residence.AWAKE]
        wanted = [one for one in away if one.is_pinned] + [one for one in away if one.residence is Residence.ASLEEP]
        fitting = next((one for one in wanted if one.awake_bytes <= self._awake_room()), None)
        if fitting is None:
            return None
        fitting.destination = Residence.AWAKE
        return Move(_way_in(fitting), fitting.name)

    def predicted_wait(self, name: str, now: float) -> float:
        """Predicts the seconds until a request that comes now finds the model awake."""
        resident = self._residents[name]
        if resident.residence is Residence.AWAKE and resident.destination is None and self.draining != name:
            return 0.0
        line = self._line(now)
        ahead = line[: line.index(resident)] if resident in line else [one for one in line if one is not resident]
        seconds = max(0.0, resident.barred_until - now)
        seconds += sum(self.times.until_awake(one) for one in (*ahead, resident))
        if self._awake_room() < sum(one.awake_bytes for one in (*ahead, resident)):
            seconds += self._until_room(now)
        return seconds

    def check_invariants(self) -> None:
        """Raises AssertionError where a budget is exceeded."""
        if self.awake_bytes > self._limits.awake_bytes:
            raise AssertionError(f"{self.awake_bytes} bytes are awake, allowed are {self._limits.awake_bytes}")
        if self.asleep_bytes > self._limits.asleep_bytes:
            raise AssertionError(f"{self.asleep_bytes} bytes are asleep, allowed are {self._limits.asleep_bytes}")

    def _choose(self, now: float) -> Move | None:
        target = next(iter(self._line(now)), None)
        if target is None:
            self.draining = None
            return self._idle_move(now)
        if self._awake_room() >= target.awake_bytes:
            self.draining = None
            return Move(_way_in(target), target.name)
        return self._make_room(target, now)

    def _idle_move(self, now: float) -> Move | None:
        """Returns the move of a model without requests for the idle time, out of all memory. None: there is none."""
        if math.isinf(self._limits.idle_seconds):
            return None
        for one in self._by_use():
            is_idle = not one.is_busy and not one.is_pinned and one.destination is None
            if is_idle and one.residence is not Residence.ON_DISK and now - one.used_time >= self._limits.idle_seconds:
                return Move(MoveKind.DROP, one.name)
        return None

    def _line(self, now: float) -> list[Resident]:
        """Models that are to come in, in order: pinned ones are always wanted, but after those with waiting
        requests."""
        wanted = [
            one
            for one in self._residents.values()
            if one.residence is not Residence.AWAKE
            and now >= one.barred_until
            and (one.waiting_since is not None or one.is_pinned)
        ]
        return sorted(wanted, key=lambda one: (one.waiting_since is None, one.waiting_since or 0.0))

    def _make_room(self, target: Resident, now: float) -> Move | None:
        movable = self._movable(now)
        if idle := [one for one in movable if not one.is_busy]:
            self.draining = None
            return self._put_out(idle[0], target)
        if not movable:
            return None
        if self.draining not in {one.name for one in movable}:
            self.draining = min(movable, key=lambda one: one.awake_since).name
        drained = self._residents[self.draining or movable[0].name]
        if now < self._interruptible_from(drained, target) or not drained.can_sleep:
            return None
        return self._put_to_sleep(drained, target)

    def _interruptible_from(self, drained: Resident, target: Resident) -> float:
        """Returns the time from which on a busy model may be put to sleep for another."""
        patience = self._limits.patience_seconds
        left_alone = patience * float(1 << min(drained.interruption_count, MAX_DOUBLINGS))
        waiting_since = math.inf if target.waiting_since is None else target.waiting_since
        return max(waiting_since + patience, drained.awake_since + left_alone)

    def _put_out(self, idle: Resident, target: Resident) -> Move:
        """Lets a model without requests sleep where there is room for it, and leave otherwise."""
        asleep = self._put_to_sleep(idle, target) if idle.can_sleep else None
        return asleep or Move(MoveKind.DROP, idle.name)

    def _put_to_sleep(self, resident: Resident, target: Resident) -> Move | None:
        """Lets a model sleep, or makes another leave host memory for it. None: there is no room to be had."""
        room = self._limits.asleep_bytes - self.asleep_bytes
        if resident.memory.weight_bytes <= room:
            return Move(MoveKind.SLEEP, resident.name)
        sleepers = [
            one for one in self._by_use() if one.residence is Residence.ASLEEP and not one.is_busy and one is not target
        ]
        if resident.memory.weight_bytes > room + sum(one.memory.weight_bytes for one in sleepers):
            return None
        return Move(MoveKind.DROP, sleepers[0].name)

    def _movable(self, now: float) -> list[Resident]:
        """Models that may leave the device now, least recently used first."""
        return [
            one
            for one in self._by_use()
            if one.residence is Residence.AWAKE
            and not one.is_pinned
            and now - one.awake_since >= self._limits.stay_seconds
        ]

    def _by_use(self) -> list[Resident]:
        return sorted(self._residents.values(), key=lambda one: one.used_time)

    def _awake_room(self) -> int:
        return self._limits.awake_bytes - self.awake_bytes

    def _until_room(self, now: float) -> float:
        """Predicts the seconds until some model can leave."""
        leaving = [
            max(0.0, one.awake_since + self._limits.stay_seconds - now)
            + (self._limits.patience_seconds if one.is_busy else 0.0)
            for one in self._residents.values()
            if one.residence is Residence.AWAKE and not one.is_pinned
        ]
        return min(leaving, default=self._limits.stay_seconds)

    def _check_size(self, resident: Resident) -> None:
        pinned = sum(one.awake_bytes for one in self._residents.values() if one.is_pinned and one is not resident)
        if resident.awake_bytes + pinned > self._limits.awake_bytes:
            raise ConfigError(
                f"model {resident.name} takes {resident.awake_bytes} bytes with its KV cache, pinned models take "
                f"{pinned}, and all that are awake may take {self._limits.awake_bytes}: raise awake_bytes, "
                "lower kv_cache_bytes, or pin fewer models",
                param="awake_bytes",
            )


def _way_in(resident: Resident) -> MoveKind:
    return MoveKind.WAKE if resident.residence is Residence.ASLEEP else MoveKind.LOAD
