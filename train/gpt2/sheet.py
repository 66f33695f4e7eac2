"""Captions that GPT-2 writes side by side, with a cache of what each row has read."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import keras
from memeloom.train.gpt2.network import empty_cache
from memeloom.train.gpt2.tokens import Tokens

# Widths and columns come in few sizes, because the network is compiled for each.
_WIDTHS = 16
_LEAST_COLUMNS = 64
_COLUMNS_TO_COME = 32


class Gpt2Sheet:
    """Rows that end at the same column; before the shorter ones stands padding.

    A row that has grown longer than the window loses the oldest part of its text, never its prompt.

    read: as `train.gpt2.network.reading` makes it, of `body`. heads: tokens before the first box of each row.
    starts: the text that each row begins with. window: how many tokens a row may have.
    """

    def __init__(
        self,
        body: Any,
        read: Callable[..., Any],
        tokens: Tokens,
        heads: Sequence[Sequence[int]],
        starts: Sequence[str],
        window: int,
    ) -> None:
        self._body, self._read, self._tokens, self._window = body, read, tokens, window
        self._heads = list(heads)
        begun = [tokens.begun(start) for start in starts]
        self._texts = [list(text) for text, _ in begun]
        self._boxes = np.array([box for _, box in begun], np.int64)
        # Where the rows stand: columns that are read, and of these those before each row that are padding.
        self._at = 0
        self._padding: NDArray[np.int32]
        self._unread: NDArray[np.int32]
        self._cache: tuple[Any, ...]
        self._scores: NDArray[np.float32] | None = None
        self._lay_out()

    def scores(self) -> NDArray[np.float32]:
        """As `Sheet`; what the model may not say has about -1e9."""
        if self._scores is None:
            if self._at + self._unread.shape[1] - self._padding.min() > self._window:
                self._lay_out()
            self._scores = self._read_on()
        return self._scores

    def append(self, tokens: NDArray[np.int64]) -> None:
        """As `Sheet`; behind a box that is closed the next marker is read."""
        self.scores()
        closed = tokens == self._tokens.close
        self._boxes = self._boxes + closed
        self._unread = np.where(closed, self._tokens.marker(self._boxes), tokens).astype(np.int32)[:, np.newaxis]
        self._scores = None
        for text, token in zip(self._texts, self._unread[:, 0].tolist(), strict=True):
            text.append(token)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """As `Sheet`."""
        if len(rows) == len(self._texts) and (rows == np.arange(len(rows))).all():
            return
        self._heads = [self._heads[row] for row in rows]
        self._texts = [self._texts[row].copy() for row in rows]
        self._boxes, self._padding, self._unread = self._boxes[rows], self._padding[rows], self._unread[rows]
        self._scores = None if self._scores is None else self._scores[rows]
        held = rows[_padded(len(rows))].astype(np.int32)
        self._cache = tuple(keras.ops.take(layer, held, axis=0) for layer in self._cache)

    def _lay_out(self) -> None:
        """Have everything read anew, from the first column on."""
        for row, (head, text) in enumerate(zip(self._heads, self._texts, strict=True)):
            room = self._window - len(head)
            if len(text) > room:
                self._texts[row] = text[-(room // 2) :]
        lines = [[*head, *text] for head, text in zip(self._heads, self._texts, strict=True)]
        width = -(-max(map(len, lines)) // _WIDTHS) * _WIDTHS
        self._unread = np.zeros((len(lines), width), np.int32)
        for row, line in enumerate(lines):
            self._unread[row, width - len(line) :] = line
        self._padding = np.array([width - len(line) for line in lines], np.int32)
        self._at = 0
        self._cache = empty_cache(self._body, len(_padded(len(lines))), _columns(width))
        self._scores = None

    def _read_on(self) -> NDArray[np.float32]:
        """Read what is unread; log-probabilities of what comes then, (rows, tokens)."""
        ends = self._at + self._unread.shape[1]
        columns = self._cache[0].shape[2]
        if ends > columns:
            more = [(0, 0), (0, 0), (0, columns), (0, 0), (0, 0)]
            self._cache = tuple(keras.ops.pad(layer, more) for layer in self._cache)
        rows = _padded(len(self._texts))
        scores, self._cache = self._read(
            self._unread[rows], self._padding[rows], np.array(self._at, np.int32), self._cache
        )
        self._at = ends
        found: NDArray[np.float32] = np.asarray(scores)[: len(self._texts)]
        return found


def _padded(rows: int) -> NDArray[np.int64]:
    """The rows, the last one repeated up to a power of two."""
    return np.minimum(np.arange(1 << (rows - 1).bit_length()), rows - 1)


def _columns(width: int) -> int:
    return max(_LEAST_COLUMNS, 1 << (width + _COLUMNS_TO_COME - 1).bit_length())
