"""Which split a caption falls in, and where it stands in the shuffled order: both by hash alone.

Nothing but the caption itself decides, so adding or removing others moves none, and the same words
on the same template are always on the same side.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from configs.errors import ConfigError
from configs.schema import Split as SplitSettings
from dataset.schema import Split

_WHOLE = 2**64


class Place(NamedTuple):
    """The fate of a caption.

    split: where it belongs. order: 32 hex digits; captions are sorted by it, and equal captions of one
    template have equal ones.
    """

    split: Split
    order: str


class Splitter:
    """Places captions as `dataset.split` says.

    Raises:
        ConfigError: validation and test leave nothing to train on.
    """

    def __init__(self, settings: SplitSettings) -> None:
        if settings.validation + settings.test >= 1:
            raise ConfigError("dataset.split: validation and test together must stay below 1")
        self._key = hashlib.blake2b(settings.salt.encode(), digest_size=32).digest()
        self._test = int(settings.test * _WHOLE)
        self._held_out = int((settings.test + settings.validation) * _WHOLE)

    def place(self, template: str, boxes: Sequence[str]) -> Place:
        """The place of a caption: by its template and its words, whatever their case, spacing and boxes."""
        words = " ".join(" ".join(boxes).casefold().split())
        content = f"{template}\0{words}".encode()
        digest = hashlib.blake2b(content, digest_size=24, key=self._key).digest()
        share = int.from_bytes(digest[:8], "big")
        split: Split = "test" if share < self._test else "validation" if share < self._held_out else "train"
        return Place(split, digest[8:].hex())
