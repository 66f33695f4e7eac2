"""Captions through the steps: a pure function over a partition of them, for one process or for many."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from configs.schema import Dataset
from dataset.spill import Row
from dataset.split import Splitter
from dataset.steps.contract import Caption, Drop, Step, apply_steps
from dataset.steps.registry import build_steps


class Partition(NamedTuple):
    """Captions to filter, and how."""

    settings: Dataset
    captions: Sequence[Caption]


class Filtered(NamedTuple):
    """What became of a partition.

    lines: rows for the spill. dropped: how many were dropped, by reason. details: of those whose step names what it
    found on a list, by reason and entry.
    """

    lines: list[str]
    dropped: Counter[str]
    details: Counter[tuple[str, str]]


def filter_partition(partition: Partition) -> Filtered:
    """Apply the steps of `partition.settings` and place what they keep."""
    steps, place = prepare(partition.settings)
    filtered = Filtered([], Counter(), Counter())
    for caption in partition.captions:
        outcome = apply_steps(steps, caption)
        if isinstance(outcome, Drop):
            filtered.dropped[outcome.reason] += 1
            if outcome.detail:
                filtered.details[outcome.reason, outcome.detail] += 1
        else:
            filtered.lines.append(place(outcome.caption))
    return filtered


@lru_cache(maxsize=1)
def prepare(settings: Dataset) -> tuple[list[Step], Callable[[Caption], str]]:
    """The steps, and what makes a spilled row of a caption; made once in a process.

    Raises:
        ConfigError: a setting that cannot be used.
    """
    splitter = Splitter(settings.split)

    def place(caption: Caption) -> str:
        found = splitter.place(caption.template, caption.boxes)
        return Row(
            order=found.order,
            id=caption.id,
            split=found.split,
            source=caption.source,
            template=caption.template,
            template_name=caption.template_name,
            template_slug=caption.template_slug,
            boxes=caption.boxes,
            image_key=caption.image_key,
        ).line()

    return build_steps(settings), place
