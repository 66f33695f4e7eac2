"""Text encoded as characters, and the prefix that names template and text box.

The input of the Imgflip article (https://towardsdatascience.com/meme-text-generation-with-a-deep-convolutional-network-in-keras-tensorflow-a57c6f218e85)
is ``<template, 12 digits>  <box index>  <text so far>``: everything is characters.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

CODE_DIGITS = 12
# The box index has one or two digits.
PREFIX_WIDTH = CODE_DIGITS + 2 + 2 + 2
MAX_BOXES = 100
# Ends a caption, in place of the separator of its last box; white space inside a box is never one.
END = "\n"
_ALWAYS = f" 0123456789{END}"


def template_code(template_id: str) -> str:
    """Return a template's code of twelve digits.

    Numeric ids are padded with zeros, as in the article; others are hashed: 64 bits of their sha256, modulo 10^12.
    """
    if template_id.isascii() and template_id.isdigit() and len(template_id) <= CODE_DIGITS:
        return template_id.zfill(CODE_DIGITS)
    digest = hashlib.sha256(template_id.encode()).digest()
    return str(int.from_bytes(digest[:8], "big") % 10**CODE_DIGITS).zfill(CODE_DIGITS)


def prefix(template_id: str, box: int) -> str:
    """Return the prefix of a text: 17 characters, 18 from the eleventh box on."""
    return f"{template_code(template_id)}  {box}  "


@dataclass(frozen=True)
class Alphabet:
    """Known characters in order of frequency. `characters[i]` is number i + 1; 0 is padding."""

    characters: tuple[str, ...]

    @classmethod
    def of(cls, captions: Sequence[str]) -> "Alphabet":
        """Return the alphabet of captions (most frequent first), with the characters of prefixes and `END`."""
        return cls((*captions, *(character for character in _ALWAYS if character not in captions)))

    @cached_property
    def _table(self) -> NDArray[np.uint16]:
        table = np.zeros(max(map(ord, self.characters), default=0) + 2, np.uint16)
        table[[ord(character) for character in self.characters]] = np.arange(1, len(self) + 1)
        return table

    def __len__(self) -> int:
        """Return the number of characters without padding."""
        return len(self.characters)

    def encode(self, text: str, *, unknown: int | None = None) -> NDArray[np.uint16]:
        """Return the numbers of `text`; unknown characters become `unknown`, or are dropped."""
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        numbers = self._table[np.minimum(points, len(self._table) - 1)]
        if unknown is None:
            return numbers[numbers > 0]
        return np.where(numbers > 0, numbers, np.uint16(unknown))

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of `numbers` without padding."""
        return "".join(self.characters[number - 1] for number in numbers if number)

    def normalize(self, text: str) -> str:
        """Return `text` without `END`, in lower case if the alphabet has no other letters."""
        text = text.replace(END, " ")
        # Capitals without lower case, such as mathematical ones, do not count.
        return text if any(character != character.lower() for character in self.characters) else text.lower()

    def prefixes(self, template_ids: Sequence[str], boxes: int) -> NDArray[np.uint16]:
        """Return the prefix of every template and box, (templates, boxes, PREFIX_WIDTH), padded on the left."""
        table = np.zeros((len(template_ids), boxes, PREFIX_WIDTH), np.uint16)
        for row, template_id in enumerate(template_ids):
            for box in range(boxes):
                numbers = self.encode(prefix(template_id, box))
                table[row, box, PREFIX_WIDTH - len(numbers) :] = numbers
        return table
