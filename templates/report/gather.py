"""Fetches what the page shows of a template from the stores: its pictures, and a few of the memes made on it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.embed import embed
from memeloom.catalog.errors import BadImage, BlobMissing, StoreCorrupt
from memeloom.catalog.images import Pixels, decode_image
from memeloom.catalog.records import Image, Meme, OcrBox, Template
from memeloom.templates.report.heat import Counts, count_texts

# Members that a card shows and those that it chooses them from; and when one asks for a template, those whose texts
# are placed, and those that are counted.
SHOWN, LOOKED_AT, PLACED, COUNTED = 12, 200, 50, 20_000
_SIDE, _QUALITY = 160, 60
_AT_ONCE = 6
# Distances are per cent; counted by tens.
STEP = 10


@dataclass(frozen=True, slots=True)
class Member:
    """A meme made on the template. picture: an address that holds a small copy of it; None if it cannot be shown."""

    meme: Meme
    picture: str | None

    @property
    def distance(self) -> int | None:
        """Per cent of the template that it does not show; None if a page named the template."""
        return self.meme.template.distance if self.meme.template else None


@dataclass
class Tally:
    """What is known of a template's members, in sums.

    looked_at: members that were counted here; at most `COUNTED`. distances: of matches, by tens of per cent.
    first, last: when the earliest and the latest of them were posted, of those whose page says so.
    """

    looked_at: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    distances: Counter[int] = field(default_factory=Counter)
    named_by_page: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, meme: Meme) -> None:
        """Count a member."""
        self.looked_at += 1
        self.sources[meme.source] += 1
        distance = meme.template.distance if meme.template else None
        if distance is None:
            self.named_by_page += 1
        else:
            self.distances[min(max(distance, 0), 99) // STEP * STEP] += 1
        if when := meme.posted_at:
            self.first = min(self.first or when, when)
            self.last = max(self.last or when, when)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A template as the page shows it.

    memes: how many are made on it. shown: some of them, those that look least like it first.
    site: its picture as a site gives it. recovered: the one made from memes. Either may be missing.
    stand_in: the picture of the meme that is most like it, if both are.
    tally, texts: of its members, and where their texts stand (`count_texts`), if it was asked for closely.
    """

    template: Template
    memes: int
    shown: tuple[Member, ...]
    site: Pixels | None
    recovered: Pixels | None
    stand_in: Pixels | None = None
    tally: Tally | None = None
    texts: tuple[Counts, int] | None = None

    @property
    def best(self) -> Pixels | None:
        """The picture without words, if there is one, else the site's."""
        return self.site if self.recovered is None else self.recovered


class Gatherer:
    """Fetches from one catalog. max_pixels: pictures with more are not shown."""

    def __init__(self, documents: DocumentStore, blobs: BlobStore, max_pixels: int) -> None:
        self._documents = documents
        self._blobs = blobs
        self._max_pixels = max_pixels

    def gather(self, template: Template, memes: int, *, closely: bool = False) -> Cluster:
        """What is to be seen of `template`; `closely` counts its members, too. Raises StoreError."""
        members = self._documents.scan(Where(template=template.id), batch=LOOKED_AT)
        tally = Tally() if closely else None
        looked_at: list[Meme] = []
        for meme in islice(members, COUNTED if closely else LOOKED_AT):
            if tally:
                tally.add(meme)
            if meme.image and len(looked_at) < LOOKED_AT:
                looked_at.append(meme)
        looked_at.sort(key=lambda meme: (-(meme.template.distance or 0) if meme.template else 0, meme.id))
        cluster = Cluster(
            template,
            memes,
            shown=self._members(looked_at),
            site=self.picture(template.image),
            recovered=self.picture(template.clean.image) if template.clean else None,
            tally=tally,
        )
        if cluster.best is None:
            return replace(cluster, stand_in=self.picture(looked_at[-1].image) if looked_at else None)
        return replace(cluster, texts=count_texts(cluster.best, self._read(looked_at[:PLACED]))) if closely else cluster

    def picture(self, image: Image | None) -> Pixels | None:
        """The picture itself; None if there is none that can be shown."""
        return self._decoded(self._fetch(image.key)) if image else None

    def _read(self, memes: list[Meme]) -> Iterator[tuple[Pixels, Sequence[OcrBox]]]:
        for meme in memes:
            if meme.ocr and meme.ocr.boxes and (picture := self.picture(meme.image)) is not None:
                yield picture, meme.ocr.boxes

    def _members(self, memes: Iterable[Meme]) -> tuple[Member, ...]:
        """Each picture once, however often it was posted."""
        by_picture: dict[str, Meme] = {}
        for meme in memes:
            if meme.image:
                by_picture.setdefault(meme.image.key, meme)
        chosen = dict(islice(by_picture.items(), SHOWN))
        # A store far away is asked for several at once; but only one is decoded, which may be large.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            fetched = pool.map(self._fetch, chosen)
            return tuple(Member(meme, self._small(data)) for meme, data in zip(chosen.values(), fetched, strict=True))

    def _fetch(self, key: str) -> bytes | None:
        try:
            return self._blobs.get(key)
        except (BlobMissing, StoreCorrupt):
            return None

    def _decoded(self, data: bytes | None) -> Pixels | None:
        try:
            return decode_image(data, max_pixels=self._max_pixels) if data else None
        except BadImage:
            return None

    def _small(self, data: bytes | None) -> str | None:
        picture = self._decoded(data)
        return None if picture is None else embed(picture, _SIDE, _QUALITY)
