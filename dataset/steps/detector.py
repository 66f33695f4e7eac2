"""py3langid's model applied to many texts at once: its automaton reads a character of each text at a time, in NumPy."""

import hashlib
import math
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import atomic_file, cache_folder

# The languages of the model: loading it to check a setting takes most of a second.
_CODES = """
    ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa fi fo fr
    fuv fy ga gcf gcr gd gl gom grc gu gug guw ha hbo he hi hr ht hu hy id ig is it ja jv ka kab kik kk km kn ko
    ku ky la lb lg lij ln lo lt ltg lv mg mk ml mn mr ms mt my ne nl nn no nso oc om or pa pcm pl ps pt qu ro ru
    rw sa sdh se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz uzs vec vi vo wa wuu xh yo yue
    zh zu zxx
"""
KNOWN: Final = frozenset(_CODES.split())
_BYTES_AT_ONCE = 2**20
# A damaged file; an archive has checksums.
_UNREADABLE = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile)


class _Model(NamedTuple):
    """The model restricted to some languages: a deterministic automaton over bytes, and naive Bayes over its features.

    languages: their codes. table: log-likelihoods, (features, languages). prior: of each language.
    moves: the next state by row and byte. rows: the row of each state. features: that a state ends, or -1.
    """

    languages: NDArray[np.str_]
    table: NDArray[np.float32]
    prior: NDArray[np.float32]
    moves: NDArray[np.uint32]
    rows: NDArray[np.uint16]
    features: NDArray[np.int32]


class Detector:
    """Probabilities of `languages`, as `py3langid.langid.LanguageIdentifier` restricted to them gives."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._model = _cached(sorted(languages))
        self.languages: list[str] = self._model.languages.tolist()

    def probabilities(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the probability of each of `languages` for each text, in lower case."""
        encoded = [unicodedata.normalize("NFC", text).encode(errors="surrogatepass") for text in texts]
        found: list[list[float]] = [[]] * len(texts)
        for part in _parts(encoded):
            scores = self._scores([encoded[at] for at in part])
            for at, row in zip(part, scores.tolist(), strict=True):
                found[at] = _softmax(row, len(encoded[at]))
        return found

    def _scores(self, texts: Sequence[bytes]) -> NDArray[np.float32]:
        """Return the log posterior of each language, (texts, languages); zeros for a text without features."""
        count = len(self._model.table)
        # Repeated features count by their logarithm.
        seen, times = np.unique(self._walk(texts), return_counts=True)
        text, feature = np.divmod(seen, count)
        weighted = np.log1p(times.astype(np.float32))[:, None] * self._model.table[feature]
        scores = np.zeros((len(texts), len(self.languages)), np.float32)
        known, begins = np.unique(text, return_index=True)
        if len(known):
            scores[known] = np.add.reduceat(weighted, begins) + self._model.prior
        return scores

    def _walk(self, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Return number of the text * number of features + feature, for each place where a feature ends.

        Texts are sorted by length, longest first.
        """
        lengths = np.array([len(text) for text in texts])
        longest = int(lengths[0])
        letters = (
            np.frombuffer(b"".join([text.ljust(longest) for text in texts]), np.uint8).reshape(len(texts), longest).T
        )
        state = np.zeros(len(texts), np.intp)
        found = [np.zeros(0, np.int64)]
        numbers = np.arange(len(texts), dtype=np.int64) * len(self._model.table)
        for at, left in enumerate(np.searchsorted(-lengths, -np.arange(longest)).tolist()):
            state[:left] = self._model.moves[self._model.rows[state[:left]], letters[at, :left]]
            feature = self._model.features[state[:left]]
            ends = np.flatnonzero(feature >= 0)
            found.append(numbers[ends] + feature[ends])
        return np.concatenate(found)


def _cached(languages: Sequence[str]) -> _Model:
    """Return the model from the cache: unpacking it takes ten times as long as reading it."""
    recipe = "\n".join([Path(__file__).read_text(), version("py3langid"), *languages])
    path = cache_folder() / "language" / f"{hashlib.sha256(recipe.encode()).hexdigest()[:16]}.npz"
    with suppress(*_UNREADABLE), path.open("rb") as file, np.load(file) as stored:
        return _Model(*(stored[name] for name in stored.files))
    model = _unpacked(languages)
    # Harmless where the folder is read-only.
    with suppress(MemeloomError), atomic_file(path) as stream:
        np.savez(stream, *model)
    return model


def _unpacked(languages: Sequence[str]) -> _Model:
    from py3langid.langid import MODEL_DIR, MODEL_FILE
    from py3langid.modelio import load_model

    table, prior, classes, moves, rows, features = load_model(MODEL_DIR / MODEL_FILE)
    columns = [at for at, language in enumerate(classes) if language in languages]
    return _Model(
        np.array([classes[at] for at in columns]),
        np.asarray(table)[:, columns].astype(np.float32),
        np.asarray(prior)[columns],
        np.asarray(moves).reshape(-1, 256),
        np.asarray(rows),
        np.asarray(features, np.int32),
    )


def _parts(texts: Sequence[bytes]) -> Iterator[list[int]]:
    """Yield the indices of texts, longest first, in parts of bounded size."""
    by_length = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
    begin = 0
    while begin < len(by_length):
        end = begin + max(_BYTES_AT_ONCE // max(len(texts[by_length[begin]]), 1), 1)
        yield by_length[begin:end]
        begin = end


def _softmax(scores: Sequence[float], length: int) -> list[float]:
    """Return probabilities. As in py3langid, scores are divided by the root of the number of bytes."""
    scale, largest = 1 / math.sqrt(length or 1), max(scores)
    powers = [math.exp(scale * (score - largest)) for score in scores]
    total = math.fsum(powers)
    return [power / total for power in powers]
