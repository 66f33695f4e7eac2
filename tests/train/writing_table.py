"""A captioner whose probabilities stand in a table: small enough to try every caption there is."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.schema_models import KindName
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.characters import Alphabet
from memeloom.train.contract import CaptionScores, Prompt
from memeloom.train.corpus import Captions

SEPARATOR = "|"
_PLACES = 12


def template(boxes: int, name: str = "61533") -> DatasetTemplate:
    return DatasetTemplate(
        id=name, name=name, slug=name, captions=1, boxes=boxes, box_count=None, geometry=(), image_key=None
    )


class TableCaptioner:
    """Each token depends on the one before it, on its place in the caption and on the template.

    tables: by template id, log-probabilities of the next token (place, after, token); the last `after` is the
    beginning, and the last place all that follow. words: what the tokens say. steps: for how
    many rows scores were asked for, step by step.
    """

    kind: ClassVar[KindName] = "causal"
    unit: ClassVar[str] = "word"
    compiled: ClassVar[bool] = True
    uses_pictures = False
    separator = SEPARATOR
    networks: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    files: Mapping[str, Any] = {}

    def __init__(self, words: Sequence[str], tables: Mapping[str, NDArray[np.float32]], joint: str = "") -> None:
        self.words, self.tables, self._joint = tuple(words), tables, joint
        self.alphabet = Alphabet.of(sorted({letter for word in words for letter in word}))
        self.boxes_closed = np.array([word == SEPARATOR for word in words], np.int64)
        self.templates = tuple(template(2, name) for name in tables)
        self.steps: list[int] = []

    @classmethod
    def drawn(cls, words: Sequence[str], seed: int, names: Sequence[str] = ("61533",)) -> "TableCaptioner":
        """With probabilities that nobody chose."""
        rng = np.random.default_rng(seed)
        tables = {}
        for name in names:
            raw = rng.normal(0, 1.5, (_PLACES, len(words) + 1, len(words)))
            tables[name] = (raw - np.log(np.exp(raw).sum(axis=-1, keepdims=True))).astype(np.float32)
        return cls(words, tables)

    def normalize(self, start: str) -> str:
        return start

    def start_decoding(self, prompts: Sequence[Prompt]) -> "TableState":
        return TableState(self, prompts)

    def text(self, tokens: Sequence[int]) -> str:
        return self._joint.join([self.words[token] for token in tokens])

    def score(self, captions: Captions, first: int, last: int) -> CaptionScores:
        raise NotImplementedError

    def log_likelihood(self, prompt: Prompt, tokens: Sequence[int]) -> float:
        """Of `tokens` behind the start text of `prompt`."""
        table = self.tables[prompt.template.id]
        before = zip([self.before(prompt), *tokens], tokens, strict=False)
        places = range(len(prompt.start), len(prompt.start) + len(tokens))
        return sum(
            float(table[min(place, len(table) - 1), at, token])
            for place, (at, token) in zip(places, before, strict=True)
        )

    def before(self, prompt: Prompt) -> int:
        """What the first token comes after."""
        return self.words.index(prompt.start[-1]) if prompt.start else len(self.words)

    def every_caption(self, prompt: Prompt, most: int) -> list[tuple[tuple[int, ...], float]]:
        """Every complete caption of at most `most` characters and its log-likelihood."""
        left = prompt.template.boxes - prompt.start.count(SEPARATOR)
        found = []
        for length in range(1, most - len(prompt.start) + 1):
            found += [
                (tokens, self.log_likelihood(prompt, tokens))
                for tokens in product(range(len(self.words)), repeat=length)
                if self.boxes_closed[list(tokens)].sum() == left and self.boxes_closed[tokens[-1]]
            ]
        return found


class TableState:
    """The last token of every row, and its place."""

    def __init__(self, model: TableCaptioner, prompts: Sequence[Prompt]) -> None:
        self._model = model
        self._tables = np.stack([model.tables[prompt.template.id] for prompt in prompts])
        self._last = np.array([model.before(prompt) for prompt in prompts])
        self._place = np.array([len(prompt.start) for prompt in prompts])

    def log_probs(self) -> NDArray[np.float32]:
        self._model.steps.append(len(self._last))
        place = np.minimum(self._place, self._tables.shape[1] - 1)
        logs: NDArray[np.float32] = self._tables[np.arange(len(self._last)), place, self._last]
        return logs

    def append(self, tokens: NDArray[np.int64]) -> None:
        assert tokens.shape == self._last.shape
        self._last, self._place = tokens.copy(), self._place + 1

    def select(self, rows: NDArray[np.int64]) -> None:
        self._tables, self._last, self._place = self._tables[rows], self._last[rows], self._place[rows]
