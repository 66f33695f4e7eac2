"""Counts of the records that an import could not use, by reason, and the first of them by name."""

from collections import Counter
from dataclasses import dataclass, field

_NAMED = 20


@dataclass
class Tally:
    """Counts by reason.

    Attributes:
        expected: records that are no memes, which is no problem.
        reasons: problems.
        named: messages for the first problems, with file and position.
        lost: number of problems for which a record was not stored.
    """

    expected: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    lost: int = 0

    def add(self, reason: str, text: str, *, lost: bool = True) -> None:
        """Count a problem. lost: no record is stored because of it."""
        self.reasons[reason] += 1
        self.lost += lost
        if len(self.named) < _NAMED:
            self.named.append(text)

    def merge(self, other: "Tally") -> None:
        """Add the counts of `other`."""
        self.expected += other.expected
        self.reasons += other.reasons
        self.lost += other.lost
        self.named = (self.named + other.named)[:_NAMED]

    def in_words(self) -> str:
        """Return the named problems, one a line, and how many more there are."""
        more = self.reasons.total() - len(self.named)
        return "\n".join([*self.named, *([f"… and {more} more"] if more else [])])
