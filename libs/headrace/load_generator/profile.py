"""Profiles of load: how long prompts and outputs of a kind of use are, what prompts share, how many turns follow."""

import math
import random
from dataclasses import dataclass
from itertools import accumulate

MAX_TOKEN_ID = 256
"""Number of token ids that prompts are drawn from: the first ones, which every vocabulary has."""
FIRST_TOKEN_ID = 3
MAX_TURNS = 8
ROOM = 0.98
"""Share of the model's length that the longest request is scaled to."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Log-normal distribution of token counts, cut off at `most`."""

    median: int
    spread: float
    """Standard deviation of the logarithm."""
    most: int

    def draw(self, generator: random.Random, scale: float = 1.0) -> int:
        """Returns a count of at least 1, `scale` times as long as drawn."""
        drawn = min(self.most, self.median * math.exp(generator.gauss(0.0, self.spread)))
        return max(1, round(drawn * scale))


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Beginning that prompts share: some texts of a pool, the first ones most often (Zipf's law)."""

    pool_size: int
    picked: int
    lengths: Lengths


@dataclass(frozen=True, slots=True)
class Profile:
    """Kind of use."""

    description: str
    shared: tuple[SharedPart, ...]
    question: Lengths
    output: Lengths
    mean_turns: float = 1.0
    """Turns of a session, geometrically distributed. Each prompt repeats the turns before it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a session."""

    prompt: list[int]
    output_token_count: int


Session = tuple[Turn, ...]

PROFILES = {
    "chat": Profile(
        "one of 4 system prompts of 200 tokens, 3 turns on average, questions of 40 tokens, answers of 160",
        (SharedPart(4, 1, Lengths(200, 0.2, 400)),),
        Lengths(40, 0.9, 600),
        Lengths(160, 0.7, 800),
        mean_turns=3.0,
    ),
    "rag": Profile(
        "3 of 40 documents of 500 tokens, the popular ones often, a question of 30 tokens, an answer of 120",
        (SharedPart(1, 1, Lengths(150, 0.0, 150)), SharedPart(40, 3, Lengths(500, 0.3, 900))),
        Lengths(30, 0.5, 120),
        Lengths(120, 0.5, 400),
    ),
    "code": Profile(
        "one of 8 files of 1,200 tokens, 4 edits on average of 25 tokens each, completions of 50",
        (SharedPart(8, 1, Lengths(1200, 0.4, 3000)),),
        Lengths(25, 0.8, 200),
        Lengths(50, 0.9, 400),
        mean_turns=4.0,
    ),
    "batch": Profile(
        "one instruction of 300 tokens, items of 300, short answers of 30",
        (SharedPart(1, 1, Lengths(300, 0.0, 300)),),
        Lengths(300, 0.6, 1500),
        Lengths(30, 0.5, 100),
    ),
}
"""Profiles by name. Numbers of tokens are medians."""


def draw_sessions(
    profile: Profile, request_count: int, seed: int, max_model_length: int | None = None
) -> tuple[list[Session], float]:
    """Returns sessions with `request_count` turns in all, the same for the same arguments, and the scale of their
    lengths: below 1 where the longest request would not fit the model."""
    scale = 1.0
    while True:
        sessions = _drawn(profile, request_count, seed, scale)
        turns = [turn for session in sessions for turn in session]
        longest = max(len(turn.prompt) + turn.output_token_count for turn in turns)
        if max_model_length is None or longest <= max_model_length or scale < 0.001:
            return sessions, scale
        # Lengths of at least 1 do not shrink, so that a second round may be needed.
        scale *= ROOM * max_model_length / longest


def _drawn(profile: Profile, request_count: int, seed: int, scale: float) -> list[Session]:
    sessions: list[Session] = []
    left = request_count
    while left > 0:
        generator = random.Random(f"{seed}/{len(sessions)}")  # noqa: S311 - a workload, not a secret
        turn_count = min(_turn_count(generator, profile.mean_turns), left)
        sessions.append(_session(profile, turn_count, seed, scale, generator))
        left -= turn_count
    return sessions


def _turn_count(generator: random.Random, mean: float) -> int:
    count = 1
    while count < MAX_TURNS and generator.random() < 1 - 1 / mean:
        count += 1
    return count


def _session(profile: Profile, turn_count: int, seed: int, scale: float, generator: random.Random) -> Session:
    """Makes the turns of a session. Answers in the history are drawn, not the real ones, so that two runs send the
    same."""
    history = [token_id for part in profile.shared for token_id in _shared(part, seed, scale, generator)]
    turns: list[Turn] = []
    for _ in range(turn_count):
        history = history + _tokens(generator, profile.question.draw(generator, scale))
        output_count = profile.output.draw(generator, scale)
        turns.append(Turn(history, output_count))
        history = history + _tokens(generator, output_count)
    return tuple(turns)


def _shared(part: SharedPart, seed: int, scale: float, generator: random.Random) -> list[int]:
    left = list(range(part.pool_size))
    found: list[int] = []
    for _ in range(part.picked):
        totals = list(accumulate(1 / (number + 1) for number in left))
        number = generator.choices(left, cum_weights=totals)[0]
        left.remove(number)
        text = random.Random(f"{seed}/{part}/{number}")  # noqa: S311 - a workload, not a secret
        found += _tokens(text, part.lengths.draw(text, scale))
    return found


def _tokens(generator: random.Random, count: int) -> list[int]:
    return [generator.randrange(FIRST_TOKEN_ID, MAX_TOKEN_ID) for _ in range(count)]
