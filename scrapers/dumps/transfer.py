"""`memeloom import` and `memeloom export`: dumps into the catalog, and the catalog into a dump.

Records are stored in batches, and importing is idempotent: running it again completes a killed import. A record that
cannot be read is skipped, counted by reason and reported; with `strict` the first one ends the import.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from memeloom.catalog.documents import DocumentStore, Upserted
from memeloom.catalog.records import Meme, Template
from memeloom.catalog.stores import open_documents
from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.outputs import atomic_file
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.report.format import escape_controls
from memeloom.scrapers.dumps.files import STDIN, DumpFile, find_files, packed_writer, read_chunks
from memeloom.scrapers.dumps.json_stream import DumpEntry, Problem, read_entries
from memeloom.scrapers.dumps.layouts import (
    TEMPLATE_LAYOUTS,
    Layout,
    Misfit,
    RecordReader,
    Skipped,
    known_layouts,
    layout_named,
    recognise,
)

BATCH_RECORDS = 5000
BATCH_CHARACTERS = 8 * 1024 * 1024
_NAMED_PROBLEMS = 20
# A file whose first values have no known layout is not a dump of memes; malformed values do not count.
_MOST_UNKNOWN = 20
# Most posts of a monthly dump are not pictures, so progress is reported in steps.
_SKIPPED_SHOWN = 1000
_UNKNOWN = "unknown layout"


def import_dumps(
    config: Config,
    paths: Sequence[Path],
    progress: Progress = SILENT,
    *,
    strict: bool = False,
    layout: str | None = None,
) -> Summary:
    """Import dumps into the catalog.

    Args:
        config: the catalog, and whether author hashes are kept.
        paths: files, directories, or ``-`` for stdin.
        progress: receives the number of durable memes.
        strict: fail at the first unreadable record; everything before it is kept.
        layout: name of the layout of all files; None detects it from the first records.

    Returns:
        Counts of files, captions, and inserted, updated and unchanged memes; the reasons of skipped records;
        ``outputs["problems"]`` lists the first 20 problems by file and position.

    Raises:
        MemeloomError: a file is missing, empty or of unknown layout. A file found in a directory is skipped and
            counted instead, unless no file at all could be read.
        ConfigError: unknown layout, or author hashes without a salt.
    """
    begun = time.monotonic()
    forced = layout_named(layout) if layout else None
    salt = _author_salt(config)
    files = _templates_first(find_files(paths), forced)
    progress.start("import", None, "memes")
    with closing(open_documents(config.store)) as documents:
        reader = RecordReader(documents.templates(), salt)
        run = _Import(documents, reader, progress, strict)
        for file in files:
            run.read(file, forced)
        run.flush()
    progress.finish()
    return run.summary(time.monotonic() - begun)


def export_memes(config: Config, path: Path, progress: Progress = SILENT) -> Summary:
    """Write all memes to `path` as JSON lines ordered by id, compressed if it ends in ``.gz`` or ``.zst``.

    The write is atomic; ``-`` is standard output. `import_dumps` restores the memes exactly; pictures are not included.

    Raises:
        MemeloomError: the catalog has no memes, or the file cannot be written.
    """
    begun = time.monotonic()
    if path.is_dir():
        raise MemeloomError(f"cannot export to {path}: it is a folder; name a file, for example memes.jsonl.zst")
    written = size = 0
    with closing(open_documents(config.store, read_only=True)) as documents:
        total = documents.count()
        if not total:
            raise MemeloomError(f"nothing to export: {config.store.documents} holds no memes")
        progress.start("export", total, "memes")
        memes = documents.scan()
        with _writer(path) as write:
            while batch := [meme.model_dump_json(exclude_none=True) for meme in islice(memes, 1000)]:
                data = "\n".join([*batch, ""]).encode()
                write(data)
                size += len(data)
                written += len(batch)
                progress.advance(len(batch))
    progress.finish()
    return Summary(
        stage="export",
        counts={"memes": written, "bytes": size if path == STDIN else path.stat().st_size},
        outputs={"dump": str(path)},
        seconds={"total": time.monotonic() - begun},
    )


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[bytes], object]]:
    if path != STDIN:
        with atomic_file(path) as stream, packed_writer(path, stream) as write:
            yield write
        return
    # Escape control characters for terminals; the JSON stays equal.
    out = sys.stdout.buffer
    yield lambda data: out.write("\n".join(map(escape_controls, data.decode().split("\n"))).encode())
    out.flush()


class _Unusable(MemeloomError):
    """An unreadable file; `reason` is counted if the file was found in a directory."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass
class _Problems:
    """Skipped and malformed records: counts by reason, and messages for the first problems."""

    skipped: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)

    def add(self, reason: str, text: str) -> None:
        self.reasons[reason] += 1
        if len(self.named) < _NAMED_PROBLEMS:
            self.named.append(text)

    def merge(self, other: "_Problems") -> None:
        self.skipped += other.skipped
        self.reasons += other.reasons
        self.named = (self.named + other.named)[:_NAMED_PROBLEMS]

    def in_words(self) -> str:
        more = self.reasons.total() - len(self.named)
        return "\n".join([*self.named, *([f"… and {more} more"] if more else [])])


@dataclass
class _Import:
    documents: DocumentStore
    reader: RecordReader
    progress: Progress
    strict: bool
    files: int = 0
    captions: int = 0
    templates: int = 0
    stored: Upserted = field(default_factory=Upserted)
    skipped: _Problems = field(default_factory=_Problems)
    unusable: _Unusable | None = None
    batch: list[Meme] = field(default_factory=list)
    waiting: int = 0

    def read(self, file: DumpFile, forced: Layout | None) -> None:
        try:
            self._read_records(file, forced)
            self.files += 1
        except _Unusable as error:
            if file.named or self.strict:
                self.flush()
                raise
            self.unusable = self.unusable or error
            self.skipped.add(error.reason, str(error))

    def summary(self, seconds: float) -> Summary:
        """Return the summary. Raises MemeloomError if no file could be read."""
        if self.unusable and not self.files:
            raise self.unusable
        skipped = self.skipped.reasons + self.skipped.skipped
        return Summary(
            stage="import",
            counts={
                "files": self.files,
                "captions": self.captions,
                **asdict(self.stored),
                "templates": self.templates,
                "skipped": skipped.total(),
            },
            reasons=dict(skipped.most_common()),
            outputs={"problems": self.skipped.in_words()} if self.skipped.named else {},
            seconds={"total": seconds},
        )

    def _read_records(self, file: DumpFile, layout: Layout | None) -> None:
        skipped = _Problems()
        good = unknown = 0
        for entry in read_entries(read_chunks(file.path)):
            layout = layout or (recognise(entry.value) if isinstance(entry, DumpEntry) else None)
            for record in _read_record(self.reader, entry, layout, file.slug):
                if not isinstance(record, Problem):
                    good += 1
                    self._take(record, entry.size if isinstance(entry, DumpEntry) else 0, skipped)
                    continue
                if self.strict and record.reason != _UNKNOWN:
                    self.flush()
                    raise MemeloomError(f"{file.path}, {record}")
                skipped.add(record.reason, f"{file.path}, {record}")
                self.progress.advance(0, skipped=1)
                unknown += isinstance(entry, DumpEntry)
            if not good and (unknown >= _MOST_UNKNOWN or (self.strict and unknown)):
                break
        if not good:
            raise _unusable(file, skipped)
        self.skipped.merge(skipped)

    def _take(self, record: Meme | Template | Skipped, size: int, skipped: _Problems) -> None:
        if isinstance(record, Skipped):
            skipped.skipped[record.reason] += 1
            if skipped.skipped.total() % _SKIPPED_SHOWN == 0:
                self.progress.advance(0, skipped=_SKIPPED_SHOWN)
            return
        if isinstance(record, Template):
            self.templates += self.documents.upsert_templates([record])
            self.reader.learn(record)
            return
        self.batch.append(record)
        self.waiting += size
        if len(self.batch) >= BATCH_RECORDS or self.waiting >= BATCH_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        if not self.batch:
            return
        done = self.documents.upsert(self.batch)
        self.stored += done
        self.captions += len(self.batch)
        self.progress.advance(len(self.batch), inserted=done.inserted, updated=done.updated, unchanged=done.unchanged)
        self.batch.clear()
        self.waiting = 0


def _read_record(
    reader: RecordReader, entry: DumpEntry | Problem, layout: Layout | None, slug: str
) -> Iterator[Meme | Template | Skipped | Problem]:
    if isinstance(entry, Problem):
        yield entry
        return
    if layout is None:
        yield Problem(_UNKNOWN, entry.unit, entry.number)
        return
    if not layout.fits(entry.value):
        yield Problem(f"not a {layout.name} record", entry.unit, entry.number)
        return
    try:
        for record in layout.read(reader, entry.value, slug):
            if isinstance(record, Misfit):
                yield Problem(f"not a {layout.name} record", entry.unit, entry.number, str(record))
            else:
                yield record
    except Misfit as misfit:
        yield Problem(f"not a {layout.name} record", entry.unit, entry.number, str(misfit))


def _unusable(file: DumpFile, skipped: _Problems) -> _Unusable:
    if not skipped.named:
        return _Unusable("empty", f"{file.path}: nothing to import, the file holds no records")
    if _UNKNOWN in skipped.reasons:
        return _Unusable(_UNKNOWN, f"{file.path}: unknown layout; known are {known_layouts()}")
    return _Unusable(next(iter(skipped.reasons)), f"nothing could be read: {skipped.named[0]}")


def _templates_first(files: list[DumpFile], forced: Layout | None) -> list[DumpFile]:
    """Sort files that describe templates first, so that captions find their templates' ids."""
    if forced or len(files) < 2:
        return files
    return sorted(files, key=lambda file: file.path == STDIN or not _describes_template(file))


def _describes_template(file: DumpFile) -> bool:
    for entry in islice(read_entries(read_chunks(file.path)), 3):
        layout = recognise(entry.value) if isinstance(entry, DumpEntry) else None
        if layout:
            return layout.name in TEMPLATE_LAYOUTS
    return False


def _author_salt(config: Config) -> str | None:
    if not config.crawl.keep_author_hash:
        return None
    if config.crawl.author_salt is None:
        raise ConfigError("crawl.author_salt: needed, because crawl.keep_author_hash is true")
    return config.crawl.author_salt.get_secret_value()
