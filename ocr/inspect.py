"""One picture looked at closely: what the engine found, what cleaning took out and why, and what caption is left."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.blobs import open_blobs
from memeloom.catalog.documents import open_documents
from memeloom.catalog.errors import BadImage, StoreError
from memeloom.catalog.images import decode_image
from memeloom.catalog.records import Ocr, TemplateBox
from memeloom.catalog.standing import Standing
from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config, Store
from memeloom.ocr.engine import Engine, ReadFailed, Word, open_engine
from memeloom.ocr.read import read_closely
from memeloom.ocr.stage import word_model
from memeloom.ocr.words import WordModel


@dataclass(frozen=True, slots=True)
class Subject:
    """A picture to read: BGR, shape (height, width, 3).

    places: the text boxes of its template, if that is known. stated: the caption, if its page states one.
    """

    name: str
    picture: NDArray[np.uint8] = field(repr=False)
    places: tuple[TemplateBox, ...] = ()
    stated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """A picture and its reading.

    found: the words as the engine read them. kept: the words after cleaning, which may be mended.
    removed: each word that was taken out, and why. seconds: how long engine and cleaning took.
    """

    subject: Subject
    found: tuple[Word, ...]
    kept: tuple[Word, ...]
    removed: tuple[tuple[Word, str], ...]
    ocr: Ocr
    seconds: float

    def lines(self) -> list[tuple[str, list[tuple[Word, str | None]]]]:
        """Each line of the engine as it was read, and its words after cleaning, each with the reason if it is gone."""
        found: dict[int, list[str]] = {}
        for word in self.found:
            found.setdefault(word.line, []).append(word.text)
        after: dict[int, list[tuple[Word, str | None]]] = {line: [] for line in found}
        for word, reason in (*((word, None) for word in self.kept), *self.removed):
            after.setdefault(word.line, []).append((word, reason))
        return [
            (" ".join(found.get(line, ())), sorted(words, key=lambda each: each[0].x))
            for line, words in sorted(after.items(), key=lambda each: min((word.y for word, _ in each[1]), default=0.0))
        ]


def inspect(config: Config, target: str) -> Look:
    """Read the picture that `target` names, a file or the id of a meme, as the stage would; nothing is stored.

    Raises:
        MemeloomError: there is no such picture, it is no picture, or it cannot be read.
        EngineMissing: the engine cannot work on this machine.
    """
    subject = load_subject(config, target)
    engine = open_engine(config.ocr)
    documents = open_documents(config.store)
    try:
        words = word_model(documents, config.ocr.language)
    finally:
        documents.close()
    return look_at(subject, engine, config, words)


def load_subject(config: Config, target: str) -> Subject:
    """The picture of the file `target`, or else of the meme with that id. Raises MemeloomError."""
    path, most = Path(target), config.crawl.max_image_pixels
    try:
        if path.exists():
            return Subject(path.name, decode_image(path.read_bytes(), max_pixels=most))
        if ":" in target:
            return _from_catalog(config.store, target, most)
    except OSError as error:
        raise MemeloomError(f"{target}: {error.strerror}") from None
    except BadImage as error:
        raise MemeloomError(f"{target}: {error}") from None
    raise MemeloomError(f"{target}: no such file, and no id of a meme (they look like imgflip:1234)")


def look_at(subject: Subject, engine: Engine, config: Config, words: WordModel | None = None) -> Look:
    """Read `subject` with `engine` and what is known of the catalog's `words`. Raises MemeloomError: it failed."""
    start = time.perf_counter()
    try:
        read = read_closely(subject.picture, engine, config.ocr, subject.places, words)
    except ReadFailed as error:
        raise MemeloomError(f"{subject.name}: {error}") from None
    seconds = time.perf_counter() - start
    return Look(subject, read.found, read.reading.words, read.reading.removed, read.ocr, seconds)


def _from_catalog(store: Store, meme_id: str, max_pixels: int) -> Subject:
    documents = open_documents(store)
    try:
        meme = documents.get(meme_id)
        if meme is None:
            raise MemeloomError(f"{meme_id}: no such file, and no such meme in the catalog")
        template = Standing(documents.templates()).get(meme.template.id) if meme.template else None
    finally:
        documents.close()
    if meme.image is None:
        raise MemeloomError(f"{meme_id}: the catalog has no picture of it")
    blobs = open_blobs(store)
    try:
        data = blobs.get(meme.image.key)
    except StoreError as error:
        raise MemeloomError(f"{meme_id}: {error}") from None
    finally:
        blobs.close()
    places = template.boxes if template else ()
    return Subject(meme_id, decode_image(data, max_pixels=max_pixels), places, meme.boxes)
