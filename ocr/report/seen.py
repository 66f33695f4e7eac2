"""What a run has read, in bounded memory however many memes that is: how sure, which are worst, some of the rest."""

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
_REASONS = 40

# Confidences are counted in steps of half a point.
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Note:
    """What became of one meme: ``kept``, ``dropped/REASON`` or ``failed/REASON`` for good.

    confidence: of its reading, 0-100; 0 where nothing was read.
    """

    meme_id: str
    outcome: str
    confidence: float = 0.0


class Least(Generic[T]):
    """The `n` least of the items that were added, each once, in order."""

    def __init__(self, n: int) -> None:
        self.items: list[T] = []
        self._n = n

    def add(self, item: T) -> None:
        """Take `item` in, if it is among the least."""
        if (len(self.items) < self._n or item < self.items[-1]) and item not in self.items:
            insort(self.items, item)
            del self.items[self._n :]


class Seen:
    """The outcomes of a run.

    kept, dropped: readings by confidence, counted in steps of half a point; those without a word are left out.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.kept = [0] * (_STEPS + 1)
        self.dropped = [0] * (_STEPS + 1)
        self._worst: Least[tuple[float, str]] = Least(WORST)
        self._samples: dict[str, Least[tuple[int, str]]] = {}

    def see(self, notes: Iterable[Note]) -> None:
        """Take in what became of some memes."""
        for note in notes:
            self.outcomes[note.outcome] += 1
            step = round(min(max(note.confidence, 0.0), 100.0) * 2)
            if note.outcome == "kept":
                self.kept[step] += 1
                self._worst.add((note.confidence, note.meme_id))
                continue
            if note.outcome.startswith("dropped/") and step:
                self.dropped[step] += 1
            if note.outcome in self._samples or len(self._samples) < _REASONS:
                # The least hashes are a fair sample, and the same one whatever the order.
                drawn = int.from_bytes(blake2b(note.meme_id.encode(), digest_size=8).digest(), "big")
                self._samples.setdefault(note.outcome, Least(SAMPLE)).add((drawn, note.meme_id))

    @property
    def median(self) -> float | None:
        """The confidence that half of the kept readings do not exceed; None if nothing was kept."""
        half = sum(self.kept) / 2
        return next(step / 2 for step, below in enumerate(accumulate(self.kept)) if below >= half) if half else None

    def worst(self) -> list[str]:
        """Ids of the kept readings with the lowest confidence, the worst first; at most `WORST`."""
        return [meme_id for _, meme_id in self._worst.items]

    def sample(self, group: str) -> dict[str, list[str]]:
        """Ids of some memes of each reason of `group` (``dropped``, ``failed``), the most frequent reason first.

        At most `SAMPLE` a reason and `GROUP` together.
        """
        ranked = sorted(self._samples, key=lambda outcome: (-self.outcomes[outcome], outcome))
        outcomes = [outcome for outcome in ranked if outcome.startswith(f"{group}/")]
        each = min(SAMPLE, GROUP // max(len(outcomes), 1))
        return {
            outcome.removeprefix(f"{group}/"): [meme_id for _, meme_id in self._samples[outcome].items[:each]]
            for outcome in outcomes
        }
