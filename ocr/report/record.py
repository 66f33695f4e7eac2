"""Record of a run for its page, in bounded memory: confidences, the worst readings, samples of the others."""

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T", bound=tuple[float | int, str])

# Memes that can be shown: kept ones, those of one reason, and those of all reasons of a group together.
WORST, SAMPLE, GROUP = 200, 24, 120
_MAX_REASONS = 40

# Confidences are counted in steps of half a point.
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one meme: ``kept``, ``dropped/REASON`` or ``failed/REASON`` for good.

    confidence: of its reading, 0-100; 0 where nothing was read.
    """

    meme_id: str
    outcome: str
    confidence: float = 0.0


class Smallest(Generic[T]):
    """The `n` smallest of the items added, each once, in order."""

    def __init__(self, n: int) -> None:
        self.items: list[T] = []
        self._n = n

    def add(self, item: T) -> None:
        """Add `item` if it is among the smallest."""
        if (len(self.items) < self._n or item < self.items[-1]) and item not in self.items:
            insort(self.items, item)
            del self.items[self._n :]


class RunRecord:
    """The outcomes of a run.

    kept, dropped: readings with words by confidence, in steps of half a point.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.kept = [0] * (_STEPS + 1)
        self.dropped = [0] * (_STEPS + 1)
        self._worst: Smallest[tuple[float, str]] = Smallest(WORST)
        self._samples: dict[str, Smallest[tuple[int, str]]] = {}

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count the outcomes of some memes."""
        for each in outcomes:
            self.outcomes[each.outcome] += 1
            step = round(min(max(each.confidence, 0.0), 100.0) * 2)
            if each.outcome == "kept":
                self.kept[step] += 1
                self._worst.add((each.confidence, each.meme_id))
                continue
            if each.outcome.startswith("dropped/") and step:
                self.dropped[step] += 1
            if each.outcome in self._samples or len(self._samples) < _MAX_REASONS:
                # The smallest hashes are a fair sample that does not depend on the order.
                drawn = int.from_bytes(blake2b(each.meme_id.encode(), digest_size=8).digest(), "big")
                self._samples.setdefault(each.outcome, Smallest(SAMPLE)).add((drawn, each.meme_id))

    @property
    def median(self) -> float | None:
        """Median confidence of the kept readings; None if nothing was kept."""
        half = sum(self.kept) / 2
        return next(step / 2 for step, below in enumerate(accumulate(self.kept)) if below >= half) if half else None

    def worst(self) -> list[str]:
        """Return the ids of the kept readings with the lowest confidence, the worst first; at most `WORST`."""
        return [meme_id for _, meme_id in self._worst.items]

    def sample(self, group: str) -> dict[str, list[str]]:
        """Return ids of memes by reason of `group` (``dropped``, ``failed``), frequent reasons first.

        At most `SAMPLE` per reason and `GROUP` together.
        """
        ranked = sorted(self._samples, key=lambda outcome: (-self.outcomes[outcome], outcome))
        outcomes = [outcome for outcome in ranked if outcome.startswith(f"{group}/")]
        each = min(SAMPLE, GROUP // max(len(outcomes), 1))
        return {
            outcome.removeprefix(f"{group}/"): [meme_id for _, meme_id in self._samples[outcome].items[:each]]
            for outcome in outcomes
        }
