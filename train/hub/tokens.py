"""Captions and prompts as tokens of any KerasHub tokenizer.

    ⟨start⟩ Meme: One Does Not Simply ⏎ one does not simply ⏎ walk into mordor ⟨end⟩
    └ by the preset's preprocessor      └ learned: line breaks between boxes, the tokenizer's end after the last

Boxes are encoded apart, so that no token spans two. A preset that takes pictures has the picture before the text.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import END, Alphabet
from memeloom.train.corpus import Captions

_LINE = "\n"
# Stands for a part of a character.
_INCOMPLETE = "\ufffd"
_NAME_CHARACTERS = 80
_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-"})
# Of a prompt with a picture, beside the picture itself: start, line breaks, begin and end of the picture.
_AROUND_PICTURE = 8
_ENCODED_AT_ONCE = 4096

Inputs = dict[str, NDArray[Any]]


class Tokens:
    """Encodes prompts and captions with `preprocessor`, a KerasHub `CausalLMPreprocessor`.

    side: size of the square pictures that prompts have, or None. picture_tokens: how many the prompt has of a picture.
    close, end: tokens that close a box, and a caption. Raises ValueError if the tokenizer has no line break.
    """

    def __init__(self, preprocessor: Any, alphabet: Alphabet, separator: str) -> None:
        self.preprocessor, self.alphabet, self.separator = preprocessor, alphabet, separator
        self._tokenizer = preprocessor.tokenizer
        self._special = frozenset(self._tokenizer.special_token_ids)
        self.close = int([*self._tokenizer.tokenize([_LINE])[0], 0][-2])
        if self._tokenizer.detokenize([[self.close]]) != [_LINE]:
            raise ValueError("its tokenizer has no line break")
        self.end = int(self._tokenizer.end_token_id)
        self._spelled: dict[int, str] = {}
        # Some SentencePiece vocabularies begin every text with a space.
        self._prefix = " " if self._box(self.encode(["a"])[0]).startswith(" ") else ""
        converter = getattr(preprocessor, "image_converter", None)
        self.side: int | None = None if converter is None else int(converter.image_size[0])
        self.picture_tokens, self._picture = 0, ""
        if self.side is not None:
            self._picture = getattr(self._tokenizer, "start_of_image_token", "")
            self.picture_tokens = getattr(preprocessor, "num_vision_tokens_per_image", 0) + _AROUND_PICTURE
            preprocessor.max_images_per_prompt = 1

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without special ones."""
        found = self._tokenizer.tokenize(list(texts)) if texts else []
        return [[int(token) for token in tokens if token not in self._special] for tokens in found]

    def streams(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each caption, which may be unfinished."""
        boxes = [text.removesuffix(END).split(self.separator) for text in texts]
        encoded = iter(self.encode([box for each in boxes for box in each]))
        streams = [[token for _ in each for token in (self.close, *next(encoded))][1:] for each in boxes]
        return [
            [*stream, self.end] if text.endswith(END) else stream for stream, text in zip(streams, texts, strict=True)
        ]

    def streams_of(self, captions: Captions, first: int, last: int) -> list[list[int]]:
        """Return the tokens of the captions `first` up to `last`, exclusive."""
        streams = []
        for begin in range(first, last, _ENCODED_AT_ONCE):
            starts = captions.starts[begin : min(begin + _ENCODED_AT_ONCE, last) + 1].tolist()
            numbers = captions.characters[starts[0] : starts[-1]].tolist()
            streams += self.streams(
                [self.alphabet.decode(numbers[at - starts[0] : until - starts[0]]) for at, until in pairwise(starts)]
            )
        return streams

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens with separators and `END`; incomplete characters are dropped.

        The first box may continue a start text, so it keeps a space that it begins with.
        """
        ended = len(tokens) > 0 and tokens[-1] == self.end
        parts: list[list[int]] = [[]]
        for token in tokens[:-1] if ended else tokens:
            if token == self.close:
                parts.append([])
            else:
                parts[-1].append(int(token))
        first, *others = map(self._box, parts)
        text = self.separator.join([first, *(box.removeprefix(self._prefix) for box in others)])
        return text + END if ended else text

    def _box(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens inside a box.

        Most tokens are spelled alike everywhere; a call of the tokenizer would take longer than a step of a small
        network.
        """
        for token in {*tokens} - self._spelled.keys():
            self._spelled[token] = self._decoded([token])
        spelled = [self._spelled[token] for token in tokens]
        if any(_INCOMPLETE in each for each in spelled):
            return self._decoded(tokens).replace(_INCOMPLETE, "")
        return "".join(spelled)

    def _decoded(self, tokens: Sequence[int]) -> str:
        # At the beginning of a text some tokenizers would remove a space.
        (text,) = self._tokenizer.detokenize([[self.close, *tokens]])
        return str(text)[1:]

    def normalize(self, start: str) -> str:
        """Normalize a typed or OCR text to the form of captions.

        Typographic signs become ASCII, white space one space, letters lower case if no others were learned; unknown
        characters are dropped. Trailing spaces go: the words of most tokenizers begin with theirs.
        """
        return self.separator.join(self.plain(box) for box in start.split(self.separator))

    def plain(self, text: str) -> str:
        """Normalize the text of one box."""
        typed = unicodedata.normalize("NFKC", text).translate(_TYPED).replace(self.separator, " ")
        folded = " ".join(self.alphabet.normalize(typed).split())
        return " ".join(self.alphabet.decode(self.alphabet.encode(folded).tolist()).split())

    def longest_prompt(self, names: Sequence[str | None]) -> int:
        """Return an upper bound of the tokens of these prompts."""
        tokens = self._tokenizer.tokenize([self._prompt(name) for name in names])
        return 1 + self.picture_tokens + max(map(len, tokens))

    def shortened(self, name: str, most: int) -> str:
        """Return the beginning of `name` that makes a prompt of at most `most` tokens."""
        short = name[:_NAME_CHARACTERS]
        while short and self.longest_prompt([short]) > most:
            short = short[: len(short) - 1 - len(short) // 8]
        return short

    def prompts(self, names: Sequence[str | None], pictures: NDArray[np.uint8] | None, width: int) -> Inputs:
        """Return the model's inputs for prompts, `width` tokens wide, each by its name in the model, (rows, …).

        names: None for a template without a name. pictures: RGB (rows, side, side, 3) for a preset that takes pictures.
        """
        given: Any = [self._prompt(name) for name in names]
        if pictures is not None:
            import tensorflow as tf

            with tf.device("cpu"):
                given = {"prompts": given, "images": tf.constant(pictures)}
        found: Mapping[str, Any] = self.preprocessor.generate_preprocess(given, sequence_length=width)
        return {name: np.array(value) for name, value in found.items()}

    def _prompt(self, name: str | None) -> str:
        named = " ".join((name or "").split())[:_NAME_CHARACTERS]
        for special in self._tokenizer.special_tokens:
            named = named.replace(special, "")
        return f"{self._picture}Meme: {named}{_LINE}"


def lengths(inputs: Inputs) -> NDArray[np.int64]:
    """Return the number of tokens of each row of `inputs`."""
    return np.asarray(inputs["padding_mask"].sum(axis=1), np.int64)


def extend(inputs: Inputs, streams: Sequence[Sequence[int]]) -> None:
    """Append the tokens of a caption to each row of `inputs`, in place, as far as they fit."""
    for row, (stream, at) in enumerate(zip(streams, lengths(inputs).tolist(), strict=True)):
        fitting = stream[: inputs["token_ids"].shape[1] - at]
        place = slice(at, at + len(fitting))
        inputs["token_ids"][row, place] = fitting
        inputs["padding_mask"][row, place] = True
        if "response_mask" in inputs:  # of presets that read prompts in both directions
            inputs["response_mask"][row, place] = True


def labels_of(inputs: Inputs, prompts: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the next tokens, int32 (rows, width), and their weights: 1 in captions, else 0, float32 (rows, width).

    prompts: number of tokens without loss that each row begins with.
    """
    labels = np.roll(inputs["token_ids"], -1, axis=1).astype(np.int32)
    place = np.arange(1, labels.shape[1] + 1)
    weights = (place >= prompts[:, None]) & (place < lengths(inputs)[:, None])
    return labels, weights.astype(np.float32)
