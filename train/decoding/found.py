"""The different captions of a prompt that are worth showing."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from memeloom.train.contract import Prompt
from memeloom.train.decoding.draft import WrittenCaption

# Methods without randomness, and those that return several captions of a prompt at once, best first.
DETERMINISTIC: Final = ("greedy", "beam")
SEARCHES: Final = ("beam", "sampled-beam")
# Each draws only what lacks, so later ones are small.
_ROUNDS = 8

# Prompts, and the number of captions for each, to the captions of each: those of a search are different and best first.
Write: TypeAlias = Callable[[Sequence[Prompt], int], list[list[WrittenCaption]]]


# Captions of a prompt and a number to the best of them, best first.
Choose: TypeAlias = Callable[[Sequence[WrittenCaption], int], list[WrittenCaption]]


class FoundCaptions:
    """Up to `most` captions with different texts, neither empty nor repetitive.

    Those that the model did not finish are kept in case that no others take their place.
    candidates: number written in the first round, to choose from; later rounds write only what lacks of `most`.
    empty, repetitive: number of such captions in the last round.
    """

    def __init__(self, most: int, candidates: int = 0) -> None:
        self.most = most
        self._wanted = max(most, candidates)
        self.empty = self.repetitive = 0
        self._finished: dict[tuple[str, ...], WrittenCaption] = {}
        self._unfinished: dict[tuple[str, ...], WrittenCaption] = {}

    @property
    def lacking(self) -> int:
        """Return the number of finished captions that the next round has to find."""
        return max(self._wanted - len(self._finished), 0)

    def add(self, captions: Iterable[WrittenCaption]) -> None:
        """Add the usable ones of a round's `captions`, and count the others."""
        self.empty = self.repetitive = 0
        self._wanted = self.most
        for caption in captions:
            self.empty += caption.empty
            self.repetitive += caption.repetitive
            if caption.usable:
                group = self._finished if caption.finished else self._unfinished
                group.setdefault(caption.texts, caption)

    def best(self, choose: Choose | None = None) -> list[WrittenCaption]:
        """Return the captions, finished ones first; `choose` picks from each of the two groups."""
        chosen: list[WrittenCaption] = []
        for group in (self._finished, self._unfinished):
            captions, left = list(group.values()), self.most - len(chosen)
            chosen += captions[:left] if choose is None else choose(captions, left)
        return chosen


def by_score(captions: Sequence[WrittenCaption], most: int) -> list[WrittenCaption]:
    """Return the `most` likeliest captions, likeliest first."""
    return sorted(captions, key=lambda caption: -caption.score)[:most]


def fill(found: Sequence[FoundCaptions], prompts: Sequence[Prompt], write: Write, method: str) -> None:
    """Write captions for each of `prompts` into its place in `found`, in one batch a round, until none lacks any.

    A round draws as many captions as a prompt lacks; a search, whose captions depend on each other, repeats as a whole.
    Deterministic methods have one round, others up to eight.
    """
    for _ in range(1 if method in DETERMINISTIC else _ROUNDS):
        lacking = [(each, prompt) for each, prompt in zip(found, prompts, strict=True) if each.lacking]
        if not lacking:
            return
        if method in SEARCHES:
            made = write([prompt for _, prompt in lacking], max(each.most for each, _ in lacking))
            for (each, _), captions in zip(lacking, made, strict=True):
                each.add(captions)
        else:
            drawn = iter(write([prompt for each, prompt in lacking for _ in range(each.lacking)], 1))
            for each, _ in lacking:
                each.add([caption for captions in islice(drawn, each.lacking) for caption in captions])
