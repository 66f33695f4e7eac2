"""What counting knows of captions: of those to train on, by counts that do not hold them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.causal.recall import joined, recalled
from memeloom.train.characters import Alphabet
from memeloom.train.ngram.chains import count
from memeloom.train.ngram.table import Estimates, Table
from memeloom.train.ngram.text import Text

# A network that saw counts of the very caption it learns would trust them too much.
FOLDS: Final = 4
# Sorting, which takes most of the time, runs beside other Python code.
_THREADS: Final = 2


class Estimator(Protocol):
    """Estimates for captions."""

    def __call__(self, text: Text, rows: NDArray[np.int64]) -> Estimates:
        """Return the estimates of every position of `text`, whose captions are the `rows` of a split."""
        ...


class Remembering:
    """An `Estimator` that adds what is recalled to what another counts.

    names: see `encoded_names`. templates: row of each caption's template, (captions,).
    """

    def __init__(self, counted: Estimator, names: Sequence[NDArray[np.uint16]], templates: NDArray[np.integer]) -> None:
        self._counted, self._names = counted, names
        self._templates = np.minimum(templates, len(names) - 1)

    def __call__(self, text: Text, rows: NDArray[np.int64]) -> Estimates:
        """See `Estimator`."""
        names = [self._names[row] for row in self._templates[rows].tolist()]
        return joined(self._counted(text, rows), recalled(text, names))


def encoded_names(templates: Sequence[DatasetTemplate], alphabet: Alphabet) -> list[NDArray[np.uint16]]:
    """Return the characters of the name of each template, and last of one that has none."""
    return [*(encoded_name(template.name, alphabet) for template in templates), np.zeros(0, np.uint16)]


def encoded_name(name: str, alphabet: Alphabet) -> NDArray[np.uint16]:
    """Return the characters of a name, and a space that ends its last word."""
    return alphabet.encode(alphabet.normalize(f"{name} "))


def by_all(table: Table) -> Estimator:
    """Return an estimator by one table, for captions that it did not count."""
    return lambda text, _: table.estimate(text.stretches)


class ByOthers:
    """An `Estimator` of counted captions: each by the counts of the other folds.

    tables: all captions but those of a fold. Row r is in the fold r modulo their number.
    """

    def __init__(self, tables: list[Table]) -> None:
        self._tables = tables

    def __call__(self, text: Text, rows: NDArray[np.int64]) -> Estimates:
        """See `Estimator`."""
        contexts = self._tables[0].contexts
        shape = len(contexts.begins), len(text)
        logs = np.empty((*shape, text.spelling.characters), np.float32)
        depth = np.empty(shape, np.int64)
        fold = rows % len(self._tables)
        for number in np.unique(fold).tolist():
            own = np.flatnonzero(fold == number)
            part = text.captions(own)
            estimates = self._tables[number].estimate(part.stretches)
            lengths = np.diff(part.starts)
            places = np.repeat(text.starts[own] - part.starts[:-1], lengths) + np.arange(len(part))
            logs[:, places], depth[:, places] = estimates
        return Estimates(logs, depth)


def count_folds(
    text: Text,
    others: Text,
    *,
    forget_singles: bool,
    importance: NDArray[np.float32] | None = None,
    done: Callable[[int], None],
) -> tuple[Table, ByOthers]:
    """Return the counts of the captions `text` and of `others`, and the estimator of the captions.

    Counts `others` and three quarters of the captions four times, and everything once, in threads.
    importance: weight of each caption of `text`, (captions,); None is 1. done: as of
    `memeloom.train.ngram.chains.count`.
    """
    captions = np.arange(len(text.templates))
    folds = max(min(FOLDS, len(captions)), 1)

    def counted(fold: int) -> Table:
        rows = captions if fold == folds else captions[captions % folds != fold]
        part = text if fold == folds else text.captions(rows)
        weights = None if importance is None else importance[rows]
        return count(part.followed_by(others), forget_singles=forget_singles, importance=weights, done=done)

    with ThreadPoolExecutor(_THREADS) as threads:
        whole, *parts = threads.map(counted, [folds, *range(folds)])
    return whole, ByOthers(parts)
