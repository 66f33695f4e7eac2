"""`memeloom build-dataset`: from the catalog to shards, vocabulary, card and manifest.

Three passes, memory bounded by one partition of captions (about 20,000) and by the number of templates:
every meme goes through the steps and is spilled by the hash of its caption; the sorted captions are counted
by template; then those that stay are written in the order of their hashes.
"""

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from catalog.blobs import open_blobs
from catalog.documents import DocumentStore, open_documents
from catalog.standing import Standing
from configs.errors import MemeloomError
from configs.load import mask_url
from configs.progress import Progress
from configs.runs import Summary
from configs.schema import Config
from dataset.describe import describe_dataset
from dataset.filtering import Partition, filter_partition, prepare
from dataset.folder import replaced_folder
from dataset.formats.registry import check_format, tensorflow_reads
from dataset.manifest import Manifest, Shard
from dataset.pictures import NO_PICTURE, chosen_picture, with_pictures
from dataset.schema import DatasetRecord
from dataset.select import Caps, TemplateTally, tally_templates, unique
from dataset.shards import ShardWriter
from dataset.spill import Row, Spill
from dataset.steps.contract import Caption, Drop, caption_of
from dataset.steps.registry import DUPLICATES
from dataset.tally import RecordTally
from engine.pool import run_partitions

_PARTITION_CAPTIONS = 4000
# Fewer memes than this are filtered before other processes have started.
_WORTH_A_POOL = 20_000


class EmptyDataset(MemeloomError):
    """There is nothing to build a dataset from, or nothing is left of it."""


def build_dataset(config: Config, progress: Progress) -> Summary:
    """Build the dataset that `config.dataset` describes from the catalog, in place of a former one.

    The same catalog, settings and code give the same bytes, whatever store the catalog is in and in
    whatever order it was filled.

    Raises:
        EmptyDataset: the catalog is empty, or no caption passed; the line says why.
        ConfigError: a setting that cannot be used.
        MemeloomError: the output cannot be written or holds something else; a store failed.
    """
    # What is wrong with the settings shows before anything is touched.
    prepare(config.dataset)
    check_format(config.dataset)
    with closing(open_documents(config.store)) as documents, replaced_folder(Path(config.dataset.output)) as folder:
        return _Build(config, documents, folder, progress).run()


class _Build:
    """One build: the store it reads, the folder it fills, and what it has counted so far."""

    def __init__(self, config: Config, documents: DocumentStore, folder: Path, progress: Progress) -> None:
        self._config = config
        self._settings = config.dataset
        self._documents = documents
        self._folder = folder
        self._progress = progress
        self._catalog = documents.counts()
        self._templates = Standing(documents.templates())
        self._dropped: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}

    def run(self) -> Summary:
        """All passes; the manifest last."""
        started = time.perf_counter()
        if not self._catalog.memes:
            where = mask_url(self._config.store.documents)
            raise EmptyDataset(f"{where} holds no memes; run `memeloom crawl` or `memeloom import` first")
        with self._timed("filter"):
            spill = self._filter()
        with self._timed("select"):
            tallies = tally_templates(self._unique(spill, Counter()))
        with self._timed("write"):
            tally, shards = self._write(spill, tallies)
        if not shards:
            raise EmptyDataset(f"no caption is left of {self._catalog.memes:,} memes: {self._reasons()}")
        shutil.rmtree(self._folder / "spill")
        manifest = describe_dataset(
            self._folder, self._settings, self._catalog, self._templates, tally, self._dropped, shards
        )
        self._seconds["total"] = time.perf_counter() - started
        return self._summary(manifest)

    def _filter(self) -> Spill:
        """Every meme through the steps; what they keep lies in the spill."""
        folder = self._folder / "spill"
        folder.mkdir()
        spill = Spill(folder, self._catalog.memes)
        engine = self._config.engine
        if engine.kind == "local" and self._catalog.memes < _WORTH_A_POOL:
            engine = engine.model_copy(update={"workers": 1})
        self._progress.start("filter captions", self._catalog.memes, "memes")
        kept = done = 0
        for lines, dropped, _ in run_partitions(filter_partition, self._partitions(), engine):
            for line in lines:
                spill.add(line)
            self._dropped += dropped
            kept += len(lines)
            news = kept + self._dropped.total() - done
            self._progress.advance(news, kept=len(lines), dropped=news - len(lines))
            done += news
        self._progress.finish()
        return spill

    def _partitions(self) -> Iterator[Partition]:
        captions = self._captions()
        while batch := list(itertools.islice(captions, _PARTITION_CAPTIONS)):
            yield Partition(self._settings, batch)

    def _captions(self) -> Iterator[Caption]:
        """The captions of the catalog, in order of id, with the picture that the dataset asks for."""
        for meme in map(self._templates.applied, self._documents.scan()):
            outcome = caption_of(meme, self._templates.get(meme.template.id) if meme.template else None)
            if isinstance(outcome, Drop):
                self._dropped[outcome.reason] += 1
                continue
            caption = outcome.caption
            if self._settings.images == "none":
                yield caption
            elif picture := chosen_picture(self._settings.images, meme, self._templates.get(caption.template)):
                yield caption.with_picture(picture)
            else:
                self._dropped[NO_PICTURE[self._settings.images]] += 1

    def _unique(self, spill: Spill, dropped: Counter[str]) -> Iterator[Row]:
        rows = spill.sorted_rows()
        return unique(rows, dropped) if DUPLICATES in self._settings.steps else rows

    def _write(self, spill: Spill, tallies: Mapping[str, TemplateTally]) -> tuple[RecordTally, list[Shard]]:
        """The captions that stay, into shards."""
        captions = sum(tally.captions for tally in tallies.values())
        rows = Caps(self._settings, tallies).apply(self._unique(spill, self._dropped), self._dropped)
        tally = RecordTally(self._folder / "words")
        written = 0
        self._progress.start("write records", captions, "captions")
        with ShardWriter(self._folder, self._settings) as writer:
            for row, picture in self._with_pictures(rows):
                record = self._record(row, tallies[row.template], picture)
                writer.write(record)
                tally.add(row.split, tallies[row.template].slug, record)
                written += 1
                if written % _PARTITION_CAPTIONS == 0:
                    self._progress.advance(_PARTITION_CAPTIONS)
            shards = writer.finish()
        self._progress.advance(written % _PARTITION_CAPTIONS)
        self._progress.finish()
        return tally, shards

    def _with_pictures(self, rows: Iterator[Row]) -> Iterator[tuple[Row, bytes | None]]:
        if self._settings.images == "none":
            yield from ((row, None) for row in rows)
            return
        with closing(open_blobs(self._config.store)) as blobs:
            yield from with_pictures(rows, blobs, self._dropped)

    def _record(self, row: Row, template: TemplateTally, picture: bytes | None) -> DatasetRecord:
        return DatasetRecord(
            id=row.id,
            template=row.template,
            template_name=template.name,
            source=row.source,
            split=row.split,
            text="".join([box + self._settings.separator for box in row.boxes]),
            boxes=row.boxes,
            image_key=row.image_key,
            image=picture,
        )

    def _summary(self, manifest: Manifest) -> Summary:
        output = self._settings.output
        return Summary(
            stage="build-dataset",
            counts={
                "memes": manifest.records + sum(manifest.dropped.values()),
                "kept": manifest.records,
                **{str(split): records for split, records in manifest.splits.items()},
                "templates": len(manifest.templates),
                "characters": manifest.characters,
                "words": manifest.words,
                "shards": len(manifest.shards),
                "bytes": sum(shard.bytes for shard in manifest.shards),
            },
            reasons=manifest.dropped,
            outputs={"dataset": output, "card": f"{output}/README.md", **self._warning()},
            seconds=self._seconds,
        )

    def _warning(self) -> dict[str, str]:
        """What one should know who chose these files."""
        if tensorflow_reads(self._settings.format, self._settings.compression):
            return {}
        packed = f" packed with {self._settings.compression}" if self._settings.format == "tfrecord" else ""
        return {"mind": f"TensorFlow, and so `memeloom train`, cannot read {self._settings.format}{packed}"}

    def _reasons(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self._dropped.most_common())

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._seconds[phase] = time.perf_counter() - started
