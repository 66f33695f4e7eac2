"""Captions as GPT-2 reads them: byte-level BPE, with a marker before each text box.

    <|endoftext|> One Does Not Simply ⟨1⟩ one does not simply ⟨2⟩ walk into mordor
                                       └ learned: one … simply ⟨close⟩    └ walk … mordor ⟨close⟩

GPT-2's document start, the template's name, and for each box its marker and text. A marker is the token of a control
character: every byte-level vocabulary has these, and no text contains one. Boxes are encoded separately, so that no
token spans two. After each box the model writes `close`, the token of a line feed, and reads the next marker in its
place, so that rows stay aligned. It can only write the characters of the captions.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import Alphabet

BEGIN = "<|endoftext|>"
_CLOSE = ord("\n")
_MARKERS = [byte for byte in range(1, 32) if byte not in b"\t\n\r"]
# Maximum tokens of a template's name; the longest of 70 real ones has 14.
_NAME_TOKENS = 24
_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-"})


def _spelled() -> list[str]:
    """Return GPT-2's character for each byte: itself if printable, else one from 256 on."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in shown else next(others)) for byte in range(256)]


class Tokens:
    """A byte-level BPE tokenizer for captions.

    vocabulary: tokens by number, bytes spelled as in GPT-2. merges: pairs ``a b`` in order of priority.
    alphabet, separator: of the captions.

    Raises ValueError if the vocabulary lacks a byte or `BEGIN`, or a merge is invalid.
    """

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[str], alphabet: Alphabet, separator: str) -> None:
        self.vocabulary, self.merges = tuple(vocabulary), tuple(merges)
        self.alphabet, self.separator = alphabet, separator
        number = {token: at for at, token in enumerate(self.vocabulary)}
        spelled = _spelled()
        lacking = [token for token in (BEGIN, *spelled) if token not in number]
        if lacking:
            raise ValueError(f"the vocabulary lacks the token {lacking[0]!r}")
        self._bytes = {character: byte for byte, character in enumerate(spelled)}
        self.begin = number[BEGIN]
        self.close = number[spelled[_CLOSE]]
        self._markers = np.array([number[spelled[byte]] for byte in _MARKERS], np.int32)
        self._encoder = self._bpe(number)

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.vocabulary)

    @cached_property
    def writable(self) -> NDArray[np.bool_]:
        """True for tokens that may be written: `close`, and those of the captions' bytes, (tokens,)."""
        letters = set("".join(self.alphabet.characters).replace(self.separator, "").encode())
        allowed = [
            token != BEGIN and all(self._bytes.get(character) in letters for character in token)
            for token in self.vocabulary
        ]
        allowed[self.close] = True
        return np.array(allowed)

    def head(self, name: str | None, most: int) -> list[int]:
        """Return at most `most` prompt tokens: `BEGIN` and the template's name."""
        named = self.encode([name])[0] if name else []
        return [self.begin, *named[: min(_NAME_TOKENS, most - 1)]]

    def marker(self, box: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the marker of each box (n,); boxes from the 28th on share one."""
        marked: NDArray[np.int32] = self._markers[np.minimum(box, len(self._markers) - 1)]
        return marked

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without markers."""
        return [found.ids for found in self._encoder.encode_batch_fast(list(texts))]

    def streams(self, captions: Iterable[str]) -> list[tuple[list[int], list[int]]]:
        """Return the input tokens of each caption, and their labels."""
        split = [caption.removesuffix(self.separator).split(self.separator) for caption in captions]
        encoded = iter(self.encode([box for boxes in split for box in boxes]))
        markers = self.marker(np.arange(max(map(len, split), default=0))).tolist()
        streams = []
        for boxes in split:
            inputs: list[int] = []
            labels: list[int] = []
            for marker in markers[: len(boxes)]:
                text = next(encoded)
                inputs += [marker, *text]
                labels += [*text, self.close]
            streams.append((inputs, labels))
        return streams

    def begun(self, start: str) -> tuple[list[int], int]:
        """Return the input tokens of an unfinished caption, and the index of its open box."""
        encoded = self.encode(start.split(self.separator))
        markers = self.marker(np.arange(len(encoded))).tolist()
        read = [token for marker, text in zip(markers, encoded, strict=True) for token in (marker, *text)]
        return read, len(encoded) - 1

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; `close` is the separator, invalid bytes are dropped."""
        parts: list[bytearray] = [bytearray()]
        for token in tokens:
            if token == self.close:
                parts.append(bytearray())
            else:
                parts[-1].extend(self._bytes[character] for character in self.vocabulary[token])
        return self.separator.join(part.decode(errors="ignore") for part in parts)

    def normalize(self, start: str) -> str:
        """Normalize a typed or OCR text to the form of captions.

        Typographic signs become ASCII, white space one space, letters lower case if no others were learned; unknown
        characters are dropped. Trailing spaces go: GPT-2's words begin with theirs.
        """
        return self.separator.join(self._plain(box) for box in start.split(self.separator))

    def _plain(self, text: str) -> str:
        typed = unicodedata.normalize("NFKC", text).translate(_TYPED).replace(self.separator, " ")
        folded = " ".join(self.alphabet.normalize(typed).split())
        return " ".join(self.alphabet.decode(self.alphabet.encode(folded).tolist()).split())

    def _bpe(self, number: dict[str, int]) -> Any:
        from tokenizers import Tokenizer, models, pre_tokenizers

        pairs = []
        for merge in self.merges:
            first, _, second = merge.partition(" ")
            if not {first, second, first + second} <= number.keys():
                raise ValueError(f"the merge {merge!r} is not of tokens of the vocabulary")
            pairs.append((first, second))
        encoder = Tokenizer(models.BPE(vocab=number, merges=pairs))
        encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return encoder


def learn_tokens(texts: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """Learn a byte-level BPE vocabulary of at most `most` tokens, and its merges; deterministic."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=most,
        special_tokens=[BEGIN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learned.train_from_iterator(texts, trainer)
    found = json.loads(learned.to_str())["model"]
    return sorted(found["vocab"], key=found["vocab"].__getitem__), [" ".join(pair) for pair in found["merges"]]
