"""Steps over many captions at once: those that act on few find them quickly, in one long text."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from memeloom.dataset.steps.contract import Caption, Drop, Outcome, Step, keep


def places(pattern: re.Pattern[str]) -> Callable[[str], Iterator[int]]:
    """Finds where `pattern` begins in a text: a screen for `Screened`."""
    return lambda text: (match.start() for match in pattern.finditer(text))


def holding(needles: Sequence[str]) -> Callable[[str], Iterator[int]]:
    """Finds where one of `needles` (in lower case) stands in a text of any case: a screen for `Screened`."""

    def suspects(text: str) -> Iterator[int]:
        text = lowered(text)
        for needle in needles:
            at = text.find(needle)
            while at >= 0:
                yield at
                at = text.find(needle, at + 1)

    return suspects


def lowered(text: str) -> str:
    """`text` in lower case, character by character where that would change its length."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(lower if len(lower := letter.lower()) == 1 else letter for letter in text)


class Screened:
    """A step that has something to do with few captions, and a quick way to find them among many.

    step: what it does. suspects: yields the places in a long text, of many captions, where there may be something;
    rather too many than too few. Boxes and captions are divided by a blank in it.
    name: whether the name of a caption's template is a reason to look, whatever its text.
    """

    def __init__(
        self, step: Step, suspects: Callable[[str], Iterable[int]], name: Callable[[str], bool] | None = None
    ) -> None:
        self._step = step
        self._suspects = suspects
        self._name = name

    def __call__(self, caption: Caption) -> Outcome:
        """Apply the step."""
        return self._step(caption)

    def worth_a_look(self, captions: Sequence[Caption]) -> list[int]:
        """The numbers of those that the step has to see; it would keep the others as they are."""
        texts = [" ".join(caption.boxes) for caption in captions]
        ends = list(itertools.accumulate(map(len, texts), lambda end, length: end + length + 1, initial=0))
        found = set()
        for place in self._suspects(" ".join(["", *texts])):
            number = bisect_right(ends, place) - 1
            if place != ends[number]:  # a blank of our own
                found.add(number)
        if self._name is not None:
            suspicious = {name for name in {caption.template_name for caption in captions} if self._name(name)}
            if suspicious:
                found.update(n for n, caption in enumerate(captions) if caption.template_name in suspicious)
        return sorted(found)


def apply_to_all(steps: Sequence[Step], captions: Sequence[Caption]) -> list[Outcome]:
    """`apply_steps` of each of many captions, in half the time."""
    outcomes: list[Outcome] = list(captions)
    left, now = list(range(len(captions))), list(captions)
    for step in steps:
        if step is keep:
            continue
        numbers = step.worth_a_look(now) if isinstance(step, Screened) else range(len(now))
        lost = False
        for number in numbers:
            outcome = outcomes[left[number]] = step(now[number])
            if isinstance(outcome, Drop):
                lost = True
            else:
                now[number] = outcome
        if lost:
            left = [number for number in left if isinstance(outcomes[number], Caption)]
            now = [caption for caption in outcomes if isinstance(caption, Caption)]
    return outcomes
