"""Error of Retry-After in virtual time: a crowd comes at once, and each request refused comes back as it was told.

    python -m tests.benchmarks.retry_after [SEED]

Four unlike workers serve two tenants for two minutes; then 800 requests come at once into a queue of 64, of one tenant
or of both. The k-th who is refused is served in time if it comes when the k-th place in the queue becomes free. Printed
are the errors of its Retry-After, as shares of that time, and the seconds until all were served.
"""

import itertools
import random
import sys

from tests.benchmarks.overload import MOST_TOKENS
from tests.benchmarks.unlike_workers import add_unlike_workers

from headrace.load_generator.percentile import percentile
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.simulation.outcome import Outcome
from headrace.scheduler.simulation.simulated_platform import MODEL, SimulatedPlatform

CROWD = 800
CROWD_AT = 125.0
USUAL_RATE = 6.0
USUAL_SECONDS = 120.0
QUEUE = 64
TENANTS = {"code": ((7.3, 0.7), 28), "conv": ((6.5, 0.9), 211)}
"""Parameters of the lengths of prompts, which are lognormal, and the mean length of outputs, which are exponential."""


class Crowd:
    """Plays the requests, and notes what who was refused was told."""

    def __init__(self, seed: int, tenants: tuple[str, ...]) -> None:
        self.told: list[float] = []
        self.platform = SimulatedPlatform(Policy(max_waiting_count=QUEUE))
        self._chance = random.Random(seed)
        self._outputs: dict[str, int] = {}
        self._numbers = itertools.count()
        self.platform.on_reject = self._come_back
        add_unlike_workers(self.platform)
        time = 0.0
        while time < USUAL_SECONDS:
            time += self._chance.expovariate(USUAL_RATE)
            self._draw(time, tuple(TENANTS))
        for _ in range(CROWD):
            self._draw(CROWD_AT, tenants)
        self.platform.run_to_end()

    def row(self) -> str:
        """Formats the figures."""
        freed = [time - CROWD_AT for time in self.platform.placements if time > CROWD_AT + 1e-9]
        pairs = zip(self.told, freed, strict=False)
        errors = [abs(told - real) / real for told, real in pairs if real > 0.5]
        seconds = max(outcome.ended_at for outcome in self.platform.outcomes.values()) - CROWD_AT
        return f"{len(self.told)} | {percentile(errors, 50):.3f} | {percentile(errors, 90):.3f} | {seconds:.1f}"

    def _draw(self, time: float, tenants: tuple[str, ...]) -> None:
        tenant = self._chance.choice(tenants)
        (mean, spread), output = TENANTS[tenant]
        prompt = 1 + int(self._chance.lognormvariate(mean, spread))
        self._ask(time, tenant, prompt, 1 + int(self._chance.expovariate(1 / output)))

    def _ask(self, time: float, tenant: str, prompt: int, output: int) -> None:
        name = f"r{next(self._numbers)}"
        self._outputs[name] = output
        ticket = Ticket(name, 1, MODEL, tenant, time, time + 10_000, prompt, max(output, MOST_TOKENS))
        self.platform.submit(time, ticket, output_token_count=output)

    def _come_back(self, outcome: Outcome) -> None:
        ticket = outcome.ticket
        if ticket.arrival == CROWD_AT:
            self.told.append(outcome.retry_after)
        time = self.platform.now + outcome.retry_after
        self._ask(time, ticket.tenant, ticket.prompt_token_count, self._outputs[ticket.request_id])


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print("| crowd | refused | error, p50 | p90 | all served after, s |")
    print("|---|---|---|---|---|")
    for tenants in (("code", "conv"), ("code",), ("conv",)):
        print(f"| {' and '.join(tenants)} | {Crowd(seed, tenants).row()} |")


if __name__ == "__main__":
    main()
