"""Writes the budget of one key for one gateway: all that waits goes into one update, which is tried until it holds."""

import asyncio
import logging
from dataclasses import dataclass, field

from headrace.access.key_record import KeyLimits
from headrace.domain.deadline import Deadline
from headrace.errors import InternalError, Unavailable
from headrace.gateway.access.limits.key_budget import KeyBudget, Refusal, Spending, wall_clock
from headrace.gateway.access.limits.limit import limits_of
from headrace.gateway.access.limits.shared_budgets import SharedBudgets

NOTHING = Spending()
ROUND_SECONDS = 2.0
"""Seconds after which an update that others keep overtaking is decided without them."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class BudgetVerdict:
    """Answer to a wish for budget, and the budget after it."""

    refusal: Refusal | None
    budget: KeyBudget


@dataclass(slots=True, eq=False)
class _Wish:
    """A request that waits for its verdict."""

    wanted: Spending
    verdict: "asyncio.Future[BudgetVerdict]"


@dataclass(slots=True)
class _Round:
    """All that one update takes in."""

    wishes: list[_Wish] = field(default_factory=list)
    returned: Spending = NOTHING
    released: int = 0
    """Places that became free."""
    is_renewal: bool = False

    def __bool__(self) -> bool:
        return bool(self.wishes) or self.must_write

    @property
    def must_write(self) -> bool:
        """Whether there is something to write even if no wish is granted."""
        return self.released > 0 or self.is_renewal or self.returned != NOTHING


@dataclass(slots=True)
class _Draft:
    """Budget as it is after a round, if it can be written."""

    budget: KeyBudget
    held: int
    verdicts: list[tuple[_Wish, BudgetVerdict]]
    spent: Spending

    @property
    def has_refusal(self) -> bool:
        return any(verdict.refusal is not None for _, verdict in self.verdicts)

    @property
    def has_grant(self) -> bool:
        return any(verdict.refusal is None for _, verdict in self.verdicts)


class LimitWriter:
    """Serializes all changes that one gateway makes to the budget of one key."""

    def __init__(self, key_id: str, gateway: str, shared: SharedBudgets) -> None:
        """`gateway`: its incarnation, under which its places count."""
        self._key_id = key_id
        self._gateway = gateway
        self._shared = shared
        self._limits = KeyLimits()
        self._next = _Round()
        self._known: tuple[KeyBudget, int] | None = None
        """Budget and revision last read or written. None: it has to be read."""
        self._seen = KeyBudget()
        """Budget to continue from while NATS is away."""
        self._held = 0
        """Requests of this gateway that run."""
        self._owed = NOTHING
        """Spending that was decided without the others and is still to be written."""
        self._task: asyncio.Task[None] | None = None

    def expects(self, limits: KeyLimits, wanted: Spending) -> bool:
        """Whether the budget that was last seen would grant a wish. Others may have spent it since."""
        budget = self._seen.copy()
        budget.fill(limits_of(limits), wall_clock())
        return budget.refusal(limits, wanted) is None

    async def ask(self, limits: KeyLimits, wanted: Spending) -> BudgetVerdict:
        """Returns whether there is budget, which is then spent, and a place, which is then taken."""
        self._limits = limits
        wish = _Wish(wanted, asyncio.get_running_loop().create_future())
        self._next.wishes.append(wish)
        self._wake()
        try:
            return await wish.verdict
        except asyncio.CancelledError:
            verdict = wish.verdict
            if verdict.done() and not verdict.cancelled() and verdict.result().refusal is None:
                self.give_back(wanted)
            raise

    def give_back(self, unused: Spending) -> None:
        """Puts back what a request did not use, and frees its place."""
        self._next.returned = self._next.returned.plus(unused)
        self._next.released += 1
        self._wake()

    def renew(self) -> None:
        """Makes the places that are taken count for longer, and writes what is owed."""
        if (self._held and self._limits.concurrency is not None) or self._owed != NOTHING:
            self._next.is_renewal = True
            self._wake()

    async def wait_until_written(self) -> None:
        """Waits until nothing is left to write."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"limits-{self._key_id}")

    async def _run(self) -> None:
        while self._next:
            taken, self._next = self._next, _Round()
            try:
                await self._write(taken)
            except Exception:  # noqa: BLE001 - the waiters receive it
                _log.exception("the budget of a key was not written", extra={"key": self._key_id})
                for wish in taken.wishes:
                    if not wish.verdict.done():
                        wish.verdict.set_exception(InternalError(stage="limit"))

    async def _write(self, taken: _Round) -> None:
        deadline = Deadline.after(ROUND_SECONDS)
        is_fresh = False
        try:
            while not deadline.expired:
                if self._known is None:
                    self._known, is_fresh = await self._shared.read(self._key_id), True
                budget, revision = self._known
                draft = self._draft(budget, taken, self._owed)
                if draft.has_refusal and not is_fresh:
                    # Another gateway may have put something back.
                    self._known = None
                    continue
                if draft.has_grant or taken.must_write or self._owed != NOTHING:
                    written = await self._shared.swap(self._key_id, draft.budget, revision)
                    self._known = None if written is None else (draft.budget, written)
                    if written is None:
                        continue
                    self._owed = NOTHING
                self._commit(draft)
                return
        except Unavailable:
            pass
        self._known = None
        draft = self._draft(self._seen, taken, NOTHING)
        self._owed = self._owed.plus(draft.spent)
        self._commit(draft)

    def _draft(self, budget: KeyBudget, taken: _Round, owed: Spending) -> _Draft:
        """Works out a round on a copy of a budget."""
        limits, now = limits_of(self._limits), wall_clock()
        fresh = budget.copy()
        fresh.fill(limits, now)
        fresh.spend(limits, owed.plus(taken.returned.negated()))
        draft = _Draft(fresh, self._held - taken.released, [], taken.returned.negated())
        self._hold(draft, now)
        for wish in taken.wishes:
            if wish.verdict.done():
                continue
            refusal = fresh.refusal(self._limits, wish.wanted)
            if refusal is None:
                fresh.spend(limits, wish.wanted)
                draft.spent = draft.spent.plus(wish.wanted)
                draft.held += 1
                self._hold(draft, now)
            draft.verdicts.append((wish, BudgetVerdict(refusal, fresh.copy())))
        return draft

    def _hold(self, draft: _Draft, now: float) -> None:
        draft.budget.hold(self._gateway, draft.held if self._limits.concurrency is not None else 0, now)

    def _commit(self, draft: _Draft) -> None:
        """Tells the verdicts. Grants to a caller that has left meanwhile are returned."""
        self._seen, self._held = draft.budget, draft.held
        for wish, verdict in draft.verdicts:
            if not wish.verdict.done():
                wish.verdict.set_result(verdict)
            elif verdict.refusal is None:
                self.give_back(wish.wanted)
