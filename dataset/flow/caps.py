"""Select the templates of a dataset, and limit the captions of each.

Captions are in hash order, so the first n of a template do not depend on the order of the catalog. A limit is the
position of the last one.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from memeloom.configs.schema import Dataset
from memeloom.dataset.flow.choose import CHOSEN
from memeloom.dataset.flow.work import WorkFolder
from memeloom.dataset.schema import SPLITS, Split

# Limit of a template: order of its last caption, and its number among equal captions.
LIMIT: Final = np.dtype([("template", "<u8"), ("last", "<u8"), ("copy", "<u4")])
NO_LIMIT: Final = 2**64 - 1, 2**32 - 1
RARE, UNPOPULAR = "rare template", "template not among the most popular"


@dataclass(frozen=True)
class Caps:
    """The selection.

    Attributes:
        limits: order and copy of the last caption of each selected template, by the template's hash.
        splits: number of captions within the limits.
        sources: number of captions on selected templates, also beyond the limit, by the hash of the source.
        rare: hashes of the templates with too few captions.
        dropped: number of captions on other templates, by reason and source.
    """

    limits: Mapping[int, tuple[int, int]]
    splits: Mapping[Split, int]
    sources: Mapping[int, int]
    rare: frozenset[int]
    dropped: Mapping[str, Mapping[int, int]]


def cap(settings: Dataset, work: WorkFolder, chosen: Sequence[str], ids: Mapping[int, str]) -> Caps:
    """Select templates and limit their captions.

    Args:
        settings: numbers of templates and captions.
        work: the work folder.
        chosen: names of the results of `dataset.flow.leaks`, in order.
        ids: template ids by hash; they break ties.
    """
    counts: Counter[int] = Counter()
    for name in chosen:
        for template, _, _, count in work.metadata(name)["captions"]:
            counts[int(template)] += count
    frequent = [each for each in counts if counts[each] >= settings.min_captions_per_template]
    frequent.sort(key=lambda each: (-counts[each], ids[each]))
    taken, rare = frozenset(frequent[: settings.templates]), frozenset(counts).difference(frequent)
    limits, splits = _limits(work, chosen, taken, settings.captions_per_template)
    sources: Counter[int] = Counter()
    dropped: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for name in chosen:
        for template, source, _, count in work.metadata(name)["captions"]:
            if int(template) in taken:
                sources[int(source)] += count
            else:
                dropped[RARE if int(template) in rare else UNPOPULAR][int(source)] += count
    return Caps(limits, splits, sources, rare, dropped)


def _limits(
    work: WorkFolder, chosen: Sequence[str], taken: frozenset[int], most: int | None
) -> tuple[dict[int, tuple[int, int]], dict[Split, int]]:
    """Return the limit of each template, and the number of captions within limits by split."""
    limits = dict.fromkeys(taken, NO_LIMIT)
    splits = [0] * len(SPLITS)
    had: Counter[int] = Counter()
    for name in chosen:
        here: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(SPLITS))
        for template, _, split, count in work.metadata(name)["captions"]:
            if limits.get(int(template)) == NO_LIMIT:
                here[int(template)][split] += count
        full = [t for t, counts in here.items() if most is not None and had[t] + sum(counts) >= most]
        rows = _rows(work, name, full)
        for template, counts in here.items():
            if template in rows:
                counts[:], limits[template] = _first(rows[template], (most or 0) - had[template])
            had[template] += sum(counts)
            splits = [whole + count for whole, count in zip(splits, counts, strict=True)]
    return limits, dict(zip(SPLITS, splits, strict=True))


def _rows(work: WorkFolder, name: str, templates: Sequence[int]) -> dict[int, np.ndarray]:
    if not templates:
        return {}
    rows = np.fromfile(work.rows(name), CHOSEN)
    rows = rows[(rows["dropped"] == 0) & np.isin(rows["template"], np.array(templates, np.uint64))]
    return {template: rows[rows["template"] == np.uint64(template)] for template in templates}


def _first(rows: np.ndarray, count: int) -> tuple[list[int], tuple[int, int]]:
    """Return the number of the first `count` rows by split, and the limit after them."""
    first = rows[np.lexsort((rows["copy"], rows["order"]))[:count]]
    last = int(first["order"][-1]), int(first["copy"][-1])
    return np.bincount(first["split"], minlength=len(SPLITS)).tolist(), last
