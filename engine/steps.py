"""Processing steps of a pipeline: a record in, `Keep(record)` or `Drop(reason)` out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(slots=True)  # half as expensive to create as a tuple or a frozen class: there is one a record and step
class Keep(Generic[T]):
    """The next step gets `record`, which the step may have changed."""

    record: T


class Drop(NamedTuple):
    """Drops the record: no further step gets it. Neither field quotes the record.

    Args:
        reason: A short fixed phrase; drops are counted by it.
        detail: The entry of a fixed list that matched, counted below the reason. Empty for most steps.
    """

    reason: str
    detail: str = ""


Outcome: TypeAlias = Keep[T] | Drop
Step: TypeAlias = Callable[[T], Keep[T] | Drop]


def apply_steps(steps: Iterable[Step[T]], record: T) -> tuple[T, Drop | None]:
    """Return `record` after `steps`, and None; or as it was when a step dropped it, and that drop."""
    for step in steps:
        outcome = step(record)
        if isinstance(outcome, Drop):
            return record, outcome
        record = outcome.record
    return record, None
