"""Fetch what the page shows of a template from the stores: its pictures, and some of its memes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.errors import BadImage, BlobMissing, StoreCorrupt
from memeloom.catalog.images import Pixels, decode_image
from memeloom.catalog.records import Image, Meme, OcrBox, Template
from memeloom.report.pictures import embed
from memeloom.templates.report.heat import Counts, count_texts

# Members shown on a card, and those they are chosen from; on the page about one template also members whose texts are
# placed, and members counted.
SHOWN, LOOKED_AT, PLACED, COUNTED = 12, 200, 50, 20_000
_SIDE, _QUALITY = 160, 60
_AT_ONCE = 6
# Per cent of distance that are counted together.
STEP = 10


@dataclass(frozen=True, slots=True)
class Member:
    """A meme of the template. picture: a ``data:`` address of a small copy; None if it cannot be shown."""

    meme: Meme
    picture: str | None

    @property
    def distance(self) -> int | None:
        """Return the per cent of the template that it does not show; None if a page named the template."""
        return self.meme.template.distance if self.meme.template else None


@dataclass
class Tally:
    """Counts of a template's members.

    looked_at: members counted, at most `COUNTED`. distances: of matches, by tens of per cent.
    first, last: times of the earliest and latest post, if known.
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
    """A template with its pictures and some of its memes.

    memes: their number. shown: some of them, the least similar first.
    site, recovered: its pictures from a site and from memes, if any. stand_in: the most similar meme's, without both.
    tally, texts: counts of its members, and where they have text (`count_texts`); only in a detailed look.
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
        """Return the recovered picture if there is one, else the site's."""
        return self.site if self.recovered is None else self.recovered


class Gatherer:
    """Fetches from one catalog. max_pixels: larger pictures are not shown."""

    def __init__(self, documents: DocumentStore, blobs: BlobStore, max_pixels: int) -> None:
        self._documents = documents
        self._blobs = blobs
        self._max_pixels = max_pixels

    def gather(self, template: Template, memes: int, *, closely: bool = False) -> Cluster:
        """Return what is shown of `template`; `closely`: with the counts of its members. Raises StoreError."""
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
        """Return the decoded picture; None if there is none that can be shown."""
        return self._decoded(self._fetch(image.key)) if image else None

    def _read(self, memes: list[Meme]) -> Iterator[tuple[Pixels, Sequence[OcrBox]]]:
        for meme in memes:
            if meme.ocr and meme.ocr.boxes and (picture := self.picture(meme.image)) is not None:
                yield picture, meme.ocr.boxes

    def _members(self, memes: Iterable[Meme]) -> tuple[Member, ...]:
        by_picture: dict[str, Meme] = {}
        for meme in memes:
            if meme.image:
                by_picture.setdefault(meme.image.key, meme)
        chosen = dict(islice(by_picture.items(), SHOWN))
        # Fetch several at once to hide latency; decode one at a time to bound memory.
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
