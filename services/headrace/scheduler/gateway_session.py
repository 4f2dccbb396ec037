"""Stream between the scheduler and one gateway: submissions come in, places go out."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from headrace.domain.ids import attempt_id
from headrace.errors import HeadraceError, InvalidRequest, Overloaded
from headrace.kv.held_prefix import HeldPrefix
from headrace.lifecycle import cancel_and_wait, wait_at_most
from headrace.rpc.checks.checked_ids import check_token_ids
from headrace.scheduler.core.model_desk import ModelDesk
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.waiter import Answer, Place
from headrace.scheduler.leases import Leases
from headrace.scheduler.prefixes import Prefixes
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.translation import (
    to_order,
    to_prompt,
    to_schedule_response,
    to_settled,
    to_sign,
    to_ticket,
)
from headrace.v1.scheduler_pb2 import (
    Generation,
    ScheduleCommand,
    ScheduleRequest,
    ScheduleResponse,
    Submission,
)

SIGN_SECONDS = 0.25
MAX_MODELS = 1000


class GatewaySession:
    """Answers each submission once. Tickets that still wait when the stream ends are withdrawn."""

    def __init__(self, scheduler: Scheduler, leases: Leases, prefixes: Prefixes, scheduler_id: str) -> None:
        self._scheduler = scheduler
        self._leases = leases
        self._prefixes = prefixes
        self._scheduler_id = scheduler_id
        self._models: dict[str, str] = {}
        """Model of each ticket that waits, by the ticket's key."""
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._answers: list[Answer] = []
        """Answers that were not sent yet."""
        self._due = asyncio.Event()
        self._over = False

    async def read_commands(self, requests: AsyncIterator[ScheduleRequest]) -> None:
        """Takes commands until the gateway ends the stream."""
        try:
            async for request in requests:
                for command in request.commands:
                    self._take(command)
        finally:
            self._over = True
            self._due.set()

    async def responses(self) -> AsyncGenerator[ScheduleResponse, None]:
        """Yields answers as they come, several at once if they wait, and a heartbeat every SIGN_SECONDS."""
        loop = asyncio.get_running_loop()
        sign_at = 0.0
        while not self._over:
            sign = None
            if loop.time() >= sign_at:
                sign_at = loop.time() + SIGN_SECONDS
                sign = to_sign(self._scheduler_id, self._scheduler.queues())
            answers, self._answers = self._answers, []
            if answers or sign is not None:
                yield to_schedule_response(answers, sign)
            await wait_at_most(self._due, sign_at - loop.time())
            self._due.clear()

    async def close(self) -> None:
        """Withdraws the tickets that still wait."""
        await cancel_and_wait(self._preparing.values())
        for key, model in list(self._models.items()):
            self._scheduler.withdraw(model, key, self)
        self._models.clear()

    def placed(self, ticket: Ticket, place: Place) -> None:
        """See `Waiter`."""
        self._models.pop(ticket.key, None)
        self._answer(Answer(ticket.request_id, ticket.attempt, place))

    def refused(self, ticket: Ticket, error: HeadraceError) -> None:
        """See `Waiter`."""
        self._models.pop(ticket.key, None)
        self._refuse(ticket.request_id, ticket.attempt, error)

    def _take(self, command: ScheduleCommand) -> None:
        match command.WhichOneof("command"):
            case "submission":
                self._submit(command.submission)
            case "withdrawal":
                withdrawal = command.withdrawal
                key = attempt_id(withdrawal.request_id, withdrawal.attempt)
                if (preparing := self._preparing.pop(key, None)) is not None:
                    preparing.cancel()
                self._models.pop(key, None)
                self._scheduler.withdraw(withdrawal.model, key, self)
            case "settlement":
                self._scheduler.feed(to_settled(command.settlement))

    def _submit(self, request: Submission) -> None:
        generation = request.generation
        try:
            self._check(generation)
        except HeadraceError as error:
            self._refuse(generation.request_id, generation.attempt, error)
            return
        if self._leases.leads(generation.model) and not self._prefix_matters(generation):
            self._queue(request, {})
            return
        key = attempt_id(generation.request_id, generation.attempt)
        preparing = self._preparing[key] = asyncio.create_task(self._prepare(request))
        preparing.add_done_callback(lambda task: self._preparing.get(key) is task and self._preparing.pop(key))

    async def _prepare(self, request: Submission) -> None:
        """Claims the model's lease, finds the workers that hold the prompt, and queues the request."""
        generation, held = request.generation, dict[str, HeldPrefix]()
        try:
            await self._leases.lead(generation.model)
            if self._prefix_matters(generation):
                held = await self._prefixes.held(to_prompt(generation), self._desk(generation))
        except HeadraceError as error:
            self._refuse(generation.request_id, generation.attempt, error)
        else:
            self._queue(request, held)

    def _prefix_matters(self, generation: Generation) -> bool:
        return self._prefixes.matter(len(generation.prompt_token_ids), self._desk(generation))

    def _desk(self, generation: Generation) -> ModelDesk:
        return self._scheduler.core.desk(generation.model)

    def _queue(self, request: Submission, held: dict[str, HeldPrefix]) -> None:
        ticket = to_ticket(request, held, self._scheduler.clock())
        self._models[ticket.key] = ticket.model
        self._scheduler.submit(ticket, to_order(request), self)

    def _check(self, generation: Generation) -> None:
        if not generation.prompt_token_ids:
            raise InvalidRequest("the prompt has no tokens", param="prompt")
        desks = self._scheduler.core.desks
        if generation.model not in desks and len(desks) >= MAX_MODELS:
            raise Overloaded(f"{MAX_MODELS} models are in use; no queue for another", stage="queue")
        desk = desks.get(generation.model)
        size = 0 if desk is None or desk.last_report is None else desk.last_report.vocabulary_size
        check_token_ids(generation.prompt_token_ids, size, "prompt_token_ids")
        check_token_ids(generation.output_token_ids, size, "output_token_ids")

    def _refuse(self, request_id: str, attempt: int, error: HeadraceError) -> None:
        self._answer(Answer(request_id, attempt, error))

    def _answer(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._due.set()
