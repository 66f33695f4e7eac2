"""Which captions stay once all are known: duplicates, rare templates, and caps a template.

Rows come in order of a hash of the caption, so "the first n" is a choice that does not depend on the order
in which the catalog was filled or read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from configs.schema import Dataset
from dataset.spill import Row


@dataclass
class TemplateTally:
    """What the captions say about one template: its name, and how many have how many boxes."""

    name: str
    slug: str
    boxes: Counter[int] = field(default_factory=Counter)

    @property
    def captions(self) -> int:
        """How many captions it has."""
        return self.boxes.total()


def unique(rows: Iterable[Row], dropped: Counter[str]) -> Iterator[Row]:
    """The rows without duplicates: of equal captions on one template the one with the lowest id stays.

    rows: sorted by `order` and `id`. dropped: takes the count of ``duplicate``.
    """
    last = ""
    for row in rows:
        if row.order == last:
            dropped["duplicate"] += 1
        else:
            last = row.order
            yield row


def tally_templates(rows: Iterable[Row]) -> dict[str, TemplateTally]:
    """The templates of `rows` by id; one entry a template in memory."""
    templates: dict[str, TemplateTally] = {}
    for row in rows:
        tally = templates.get(row.template)
        if tally is None:
            tally = templates[row.template] = TemplateTally(row.template_name, row.template_slug)
        tally.boxes[len(row.boxes)] += 1
    return templates


class Caps:
    """The limits of a configuration: `min_captions_per_template`, `templates`, `captions_per_template`.

    templates: the captions of each template before any cap.
    """

    def __init__(self, settings: Dataset, templates: Mapping[str, TemplateTally]) -> None:
        counts = {name: tally.captions for name, tally in templates.items()}
        self._counts = counts
        self._minimum = settings.min_captions_per_template
        self._limit = settings.captions_per_template
        frequent = sorted((name for name in counts if counts[name] >= self._minimum), key=lambda n: (-counts[n], n))
        self._chosen = frozenset(frequent[: settings.templates])
        self._taken: Counter[str] = Counter()

    def apply(self, rows: Iterable[Row], dropped: Counter[str]) -> Iterator[Row]:
        """The rows within the caps.

        dropped: takes the counts of ``rare template``, ``template not among the most popular`` and
        ``template is full``.
        """
        for row in rows:
            if row.template not in self._chosen:
                rare = self._counts[row.template] < self._minimum
                dropped["rare template" if rare else "template not among the most popular"] += 1
            elif self._limit is not None and self._taken[row.template] >= self._limit:
                dropped["template is full"] += 1
            else:
                self._taken[row.template] += 1
                yield row
