"""Captions from the table that `memeloom generate --all` filled, for a server without a live model."""

import random
import threading
from functools import cached_property
from pathlib import Path
from typing import Final

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Dataset
from memeloom.dataset.steps.profanity import WordList
from memeloom.serve.captions.request import CaptionRequest, new_template
from memeloom.serve.captions.service import Written
from memeloom.serve.ready import ReadyMemes
from memeloom.train.decoding.draft import WrittenCaption

# What an answer calls the model of such captions.
READY: Final = "ready"
_MOST: Final = 1000


class ReadyCaptions:
    """The table in `generate.table`, opened when it is there. Its methods block, and may be called by any thread.

    Args:
        path: of the table.
        words: the word lists that `safe` refuses; the table may have been written without them.
    """

    def __init__(self, path: Path, words: Dataset) -> None:
        self._path, self._words = path, words
        self._opening = threading.Lock()
        self._table: ReadyMemes | None = None

    def ids(self) -> frozenset[str]:
        """Return the ids of the templates that have captions; none without a table."""
        table = self._opened()
        try:
            return frozenset(table.templates()) if table is not None else frozenset()
        except MemeloomError:
            return frozenset()

    def captions(self, request: CaptionRequest) -> Written | None:
        """Return captions of a template, drawn at random; None if the table has none that fit the request.

        A start text, a picture, a model by its name and a template that nobody knows need a model.
        """
        table, settings = self._opened(), request.settings
        if table is None or settings.start or request.picture is not None or request.model not in (None, READY):
            return None
        try:
            rng = random.Random(settings.seed)
            found = table.captions(request.template, _MOST, rng)
        except MemeloomError:
            return None
        fitting = [
            each
            for each in found
            if (settings.boxes is None or len(each.boxes) <= settings.boxes)
            and not (settings.safe and self._word_list.find("\n".join(each.boxes)))
        ]
        captions = [
            WrittenCaption(
                new_template(each.template_id, each.template_name, len(each.boxes)),
                each.boxes,
                each.score,
                finished=True,
            )
            for each in fitting[: settings.captions]
        ]
        return Written(captions, READY) if captions else None

    def close(self) -> None:
        """Close the table."""
        with self._opening:
            if self._table is not None:
                self._table.close()
                self._table = None

    @cached_property
    def _word_list(self) -> WordList:
        words = self._words
        return WordList(words.profanity_tiers, words.profanity_allow, words.profanity_deny)

    def _opened(self) -> ReadyMemes | None:
        with self._opening:
            if self._table is None:
                try:
                    self._table = ReadyMemes.open(self._path)
                except MemeloomError:
                    return None
            return self._table
