"""Decoding with a KerasHub model, token by token, through its own cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import keras, padded_rows
from memeloom.train.hub.network import Decoder
from memeloom.train.hub.tokens import Inputs, extend, lengths


@dataclass(slots=True)
class _Group:
    """Rows of one length, which KerasHub's caches need.

    rows: their places in the state. prompt: tokens of the prompt. length: tokens read. cache: of all but the last.
    """

    rows: NDArray[np.int64]
    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    others: Mapping[str, Any]
    prompt: int
    length: int
    cache: Any = None

    def log_probs(self, decoder: Decoder) -> NDArray[np.float32]:
        """Read the last token of each row; return log-probabilities of the next, (rows, writable)."""
        rows = padded_rows(len(self.rows))
        tokens, mask = self.tokens[rows], self.mask[rows]
        if self.cache is None:
            others = {name: values[rows] for name, values in self.others.items()}
            self.cache = decoder.begin({**others, "token_ids": tokens, "padding_mask": mask})
        found, self.cache = decoder.step(tokens, mask, self.cache, np.array(self.length, np.int32))
        scores: NDArray[np.float32] = np.asarray(found)[: len(self.rows)]
        return scores

    def append(self, tokens: NDArray[np.int32]) -> None:
        """Append a token to each row; a row that is full loses the older half of its text, never its prompt."""
        width = self.tokens.shape[1]
        if self.length == width:
            kept = (width - self.prompt) // 2
            self.tokens[:, self.prompt : self.prompt + kept] = self.tokens[:, width - kept :]
            self.length, self.cache = self.prompt + kept, None
            self.mask = np.broadcast_to(np.arange(width) < self.length, self.mask.shape)
        self.tokens[:, self.length] = tokens
        self.length += 1

    def select(self, chosen: NDArray[np.int64], rows: NDArray[np.int64]) -> "_Group":
        """Return the group with its rows `chosen`, in the places `rows`."""
        held = chosen[padded_rows(len(chosen))]
        cache = self.cache
        if cache is not None:
            cache = keras.tree.map_structure(lambda layer: keras.ops.take(layer, held, axis=0), cache)
        others = {name: values[chosen] for name, values in self.others.items()}
        return _Group(rows, self.tokens[chosen], self.mask[chosen], others, self.prompt, self.length, cache)


class HubState:
    """See `memeloom.train.contract.DecodingState`.

    inputs: of the model, for prompts. starts: tokens of each row's start text. writable: the model's tokens that may be
    written, which are the tokens of this state.
    """

    def __init__(
        self, decoder: Decoder, inputs: Inputs, starts: Sequence[Sequence[int]], writable: NDArray[np.int32]
    ) -> None:
        self._decoder, self._writable, self._rows = decoder, writable, len(starts)
        prompts, width = lengths(inputs), inputs["token_ids"].shape[1]
        # Room for a token to come.
        extend(inputs, [start[-(width - 1 - prompt) :] for start, prompt in zip(starts, prompts.tolist(), strict=True)])
        sizes = np.stack([prompts, lengths(inputs)], axis=1)
        tokens, mask = inputs.pop("token_ids").astype(np.int32), inputs.pop("padding_mask").astype(bool)
        self._groups = []
        for prompt, length in np.unique(sizes, axis=0).tolist():
            rows = np.flatnonzero((sizes == (prompt, length)).all(axis=1))
            others = {name: values[rows] for name, values in inputs.items()}
            self._groups.append(_Group(rows, tokens[rows], mask[rows], others, prompt, length))
        self._scores: NDArray[np.float32] | None = None

    def log_probs(self) -> NDArray[np.float32]:
        if self._scores is None:
            self._scores = np.zeros((self._rows, len(self._writable)), np.float32)
            for group in self._groups:
                self._scores[group.rows] = group.log_probs(self._decoder)
        return self._scores

    def append(self, tokens: NDArray[np.int64]) -> None:
        self.log_probs()
        for group in self._groups:
            group.append(self._writable[tokens[group.rows]])
        self._scores = None

    def select(self, rows: NDArray[np.int64]) -> None:
        if len(rows) == self._rows and (rows == np.arange(self._rows)).all():
            return
        groups = []
        for group in self._groups:
            places = np.flatnonzero(np.isin(rows, group.rows))
            if len(places):
                groups.append(group.select(np.searchsorted(group.rows, rows[places]), places))
        self._groups, self._rows = groups, len(rows)
        self._scores = None if self._scores is None else self._scores[rows]
