"""Captions packed into rows of one length, with little padding.

A row holds whole captions with their prompts; each attends only to itself. The seed fixes the packing, and seed and
step the rows of a batch.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memeloom.train.corpus import Captions, shuffled
from memeloom.train.gpt2.tokens import Tokens

_NO_LABEL = -1
_ENCODED_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Pieces:
    """Concatenated prompts and captions; captions longer than the window are cut into several pieces.

    inputs: tokens, int32 (places,). labels: int32 (places,); -1 where there is no loss.
    starts: offset of each piece, and the end of the last, int64 (pieces + 1,).
    captions: the caption of each piece, relative to the first, int64 (pieces,).
    """

    inputs: NDArray[np.int32]
    labels: NDArray[np.int32]
    starts: NDArray[np.int64]
    captions: NDArray[np.int64]


def cut_pieces(
    tokens: Tokens,
    heads: Sequence[Sequence[int]],
    captions: Captions,
    first: int,
    last: int,
    *,
    window: int,
    nameless: int | None = None,
) -> Pieces:
    """Cut the captions `first` up to `last`, exclusive, into pieces of at most `window` places.

    heads: prompt tokens of each template; the last are for unknown templates.
    nameless: one in this many captions gets the last, to train without a name.
    """
    inputs, labels, starts, owners = array("i"), array("i"), array("q", [0]), array("q")
    for begin in range(first, last, _ENCODED_AT_ONCE):
        end = min(begin + _ENCODED_AT_ONCE, last)
        bounds = (captions.starts[begin : end + 1] - captions.starts[begin]).tolist()
        together = tokens.alphabet.decode(captions.characters[captions.starts[begin] : captions.starts[end]].tolist())
        texts = [together[at:until] for at, until in pairwise(bounds)]
        for caption, (stream, answers) in enumerate(tokens.streams(texts), start=begin):
            row = min(int(captions.templates[caption]), len(heads) - 1)
            head = heads[-1 if nameless and caption % nameless == 0 else row]
            for at, new, until in windows(len(stream), window - len(head)):
                inputs.extend((*head, *stream[at:until]))
                labels.extend([_NO_LABEL] * (len(head) + new - at))
                labels.extend(answers[new:until])
                starts.append(len(inputs))
                owners.append(caption - first)
    return Pieces(
        np.array(inputs, np.int32), np.array(labels, np.int32), np.array(starts, np.int64), np.array(owners, np.int64)
    )


def windows(length: int, room: int) -> Iterator[tuple[int, int, int]]:
    """Yield overlapping spans of at most `room` of `length` tokens: begin, first new token, end.

    All but the first repeat earlier tokens in half of the room.
    """
    new = 0
    while new < length:
        at = max(new - room // 2, 0)
        until = min(at + room, length)
        yield at, new, until
        new = until


def pack(lengths: NDArray[np.int64], width: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pack pieces into rows of `width` tokens, best fit, in an order fixed by the seed.

    Returns the pieces in the order of the rows, (pieces,), and the offset of each row in them, (rows + 1,).
    """
    rows: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(width + 1)]
    for piece in shuffled(np.arange(len(lengths), dtype=np.int64), len(lengths), seed).tolist():
        need = int(lengths[piece])
        room = next((room for room in range(need, width) if with_room[room]), width)
        if with_room[room]:
            row = with_room[room].pop()
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(piece)
        if room > need:
            with_room[room - need].append(row)
    order = np.array([piece for row in rows for piece in row], np.int64)
    return order, np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)


class Rows:
    """Pieces packed into rows of `width` tokens."""

    def __init__(self, pieces: Pieces, width: int, seed: int) -> None:
        self.pieces, self.width = pieces, width
        self._order, self._firsts = pack(np.diff(pieces.starts), width, seed)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._firsts) - 1

    def batch(self, which: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Return inputs, labels and weights of these rows; rows beyond the last are empty.

        inputs: tokens, and the column where their piece begins, int32 (rows, 2, width). labels: next tokens, int32
        (rows, width). weights: 1 in captions, 0 in prompts and padding, float32 (rows, width).
        """
        inputs, labels, owners = self.owned(which)
        return inputs, labels, (owners >= 0).astype(np.float32)

    def owned(self, which: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """As `batch`, with the caption of each label, int64 (rows, width), or -1, in place of weights."""
        pieces = self.pieces
        inputs = np.zeros((len(which), 2, self.width), np.int32)
        inputs[:, 1] = np.arange(self.width)
        labels = np.zeros((len(which), self.width), np.int32)
        owners = np.full((len(which), self.width), -1, np.int64)
        for number, row in enumerate(which.tolist()):
            if row >= len(self):
                continue
            at = 0
            for piece in self._order[self._firsts[row] : self._firsts[row + 1]].tolist():
                begin, end = int(pieces.starts[piece]), int(pieces.starts[piece + 1])
                place = slice(at, at + end - begin)
                of_piece = pieces.labels[begin:end]
                inputs[number, 0, place] = pieces.inputs[begin:end]
                inputs[number, 1, place] = at
                labels[number, place] = np.maximum(of_piece, 0)
                owners[number, place] = np.where(of_piece == _NO_LABEL, -1, pieces.captions[piece])
                at += end - begin
        return inputs, labels, owners
