"""Run steps over batches of captions, with a fast search that skips the captions a step would keep unchanged."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from memeloom.dataset.steps.caption import Caption, Outcome, Step, keep
from memeloom.engine.steps import Drop

# Yields positions in a text where a step may apply.
Search: TypeAlias = Callable[[str], Iterable[int]]


def search_pattern(pattern: re.Pattern[str]) -> Search:
    """Return a search for the matches of `pattern`."""
    return lambda text: (match.start() for match in pattern.finditer(text))


def search_substrings(substrings: Sequence[str]) -> Search:
    """Return a search, in texts of any case, for lower-case `substrings`."""

    def positions(text: str) -> Iterator[int]:
        text = lower_same_length(text)
        for substring in substrings:
            at = text.find(substring)
            while at >= 0:
                yield at
                at = text.find(substring, at + 1)

    return positions


def lower_same_length(text: str) -> str:
    """Return `text` in lower case, except characters whose lower case has another length."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


class PrefilteredStep:
    """A step that keeps most captions unchanged, with a fast search for the others in a batch.

    Args:
        step: Called with one caption.
        search: Searches the joined boxes of many captions; must find every caption that the step changes or drops.
        matches_name: Returns True if a template's name makes all its captions candidates.
    """

    def __init__(self, step: Step, search: Search, matches_name: Callable[[str], bool] | None = None) -> None:
        self._step = step
        self._search = search
        self._matches_name = matches_name

    def __call__(self, caption: Caption) -> Outcome:
        """Apply the step to one caption."""
        return self._step(caption)

    def candidates(self, captions: Sequence[Caption]) -> list[int]:
        """Return the indices of the captions that the step may change or drop."""
        texts = [" ".join(caption.boxes) for caption in captions]
        ends = list(itertools.accumulate(map(len, texts), lambda end, length: end + length + 1, initial=0))
        found = set()
        for position in self._search(" ".join(["", *texts])):
            index = bisect_right(ends, position) - 1
            if position != ends[index]:  # a blank between captions
                found.add(index)
        if self._matches_name is not None:
            matching = {name for name in {caption.template_name for caption in captions} if self._matches_name(name)}
            if matching:
                found.update(n for n, caption in enumerate(captions) if caption.template_name in matching)
        return sorted(found)


def apply_to_batch(steps: Sequence[Step], captions: Sequence[Caption]) -> list[Caption | Drop]:
    """Return the result of `apply_steps` for each caption, in half the time."""
    results: list[Caption | Drop] = list(captions)
    kept, indices = list(captions), list(range(len(captions)))
    for step in steps:
        if step is keep:
            continue
        dropped = False
        for at in step.candidates(kept) if isinstance(step, PrefilteredStep) else range(len(kept)):
            outcome = step(kept[at])
            if isinstance(outcome, Drop):
                results[indices[at]] = outcome
                dropped = True
            else:
                results[indices[at]] = kept[at] = outcome.record
        if dropped:
            indices = [index for index in indices if not isinstance(results[index], Drop)]
            kept = [result for result in results if not isinstance(result, Drop)]
    return results
