"""What `memeloom purge` does, room by room: the catalog, the pictures, datasets, and what lies around."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memeloom.catalog.documents import Where
from memeloom.catalog.errors import StoreUnavailable
from memeloom.catalog.removal import Choice, Plan, finish, pages_showing, remove, sweep
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.cli.progress import open_progress
from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config, mask_url, masked
from memeloom.dataset.flow.work import remove_work, work_folder
from memeloom.dataset.manifest import MANIFEST, NotADataset
from memeloom.dataset.removal import Holding, find_removed
from memeloom.report.format import escape_controls

if TYPE_CHECKING:
    from memeloom.cli.context import CommandContext
    from memeloom.configs.progress import Progress
    from memeloom.configs.schema import Config

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset and what has to be done about it.

    rebuild: the command that builds it again; None if it holds nothing of what was removed.
    work: what became of its work folder, where builds keep captions; None if there is none to remove.
    """

    holding: Holding
    rebuild: str | None
    work: str | None

    def as_json(self) -> dict[str, Any]:
        """Plain facts, without the settings."""
        facts = {name: value for name, value in asdict(self.holding).items() if name != "settings"}
        return {**facts, "folder": str(self.holding.folder), "rebuild": self.rebuild, "work": self.work}


@dataclass(frozen=True, slots=True)
class Purged:
    """What went, or, of a plan, would go.

    memes, blobs: how many. absent: ids that were asked for and are not in the catalog.
    templates: ids of those that lose the picture that was made from what goes.
    orphans, young: stored pictures that nothing refers to, and those too young to tell; None if nobody asked.
    alike: memes that stay and whose pictures look much the same: bits and ids.
    pages: of runs, that name a removed meme.
    scrubbed: whether the catalog's file was written anew without what was removed; None of a plan.
    """

    planned: bool
    memes: int
    blobs: int
    absent: Sequence[str]
    templates: Sequence[str]
    orphans: int | None
    young: int | None
    alike: Sequence[tuple[int, str]]
    datasets: Sequence[Dataset] = ()
    pages: Sequence[Path] = ()
    scrubbed: bool | None = None

    @property
    def anything(self) -> bool:
        """Whether there is something to remove."""
        return bool(self.memes or self.blobs or self.templates or self.orphans)

    def as_json(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers."""
        facts = {name: getattr(self, name) for name in ("planned", "memes", "blobs", "orphans", "young", "scrubbed")}
        return {
            **facts,
            "absent": list(self.absent),
            "templates": list(self.templates),
            "alike": [{"id": meme_id, "bits": bits} for bits, meme_id in self.alike],
            "datasets": [dataset.as_json() for dataset in self.datasets],
            "pages": [str(page) for page in self.pages],
        }


class Purge:
    """One call of the command; `close` it.

    choice: None removes no memes. folders: datasets to look into besides `dataset.output`.

    Raises:
        NotADataset: one of `folders` holds none.
        StoreError: a store cannot be opened, or fails.
    """

    def __init__(
        self, context: CommandContext, config: Config, choice: Choice | None, folders: Sequence[Path], orphans: bool
    ) -> None:
        self._context = context
        self._config = config
        self._choice = choice
        self._orphans = orphans
        self._folders = self._checked(folders)
        self._open = ExitStack()
        self._documents = open_documents(config.store)
        self._open.callback(self._documents.close)
        try:
            self._blobs = open_blobs(config.store)
        except BaseException:
            self.close()
            raise
        self._open.callback(self._blobs.close)

    def plan(self, *, look_around: bool) -> Purged:
        """What would go. look_around: what would be left in datasets and pages, too. Nothing is touched."""
        documents, choice = self._documents, self._choice
        with ExitStack() as open_, open_progress() as progress:
            swept, young = sweep(documents, self._blobs, dry=True) if self._orphans else (None, None)
            counted = Purged(True, 0, 0, self._absent(), [], swept, young, [])
            plan = None
            if choice is not None:
                folder = open_.enter_context(tempfile.TemporaryDirectory(prefix="memeloom-purge-"))
                plan = open_.enter_context(Plan(documents, choice, Path(folder)))
                alike = choice.similar(documents)
                counted = replace(counted, memes=plan.memes, blobs=plan.blobs, templates=plan.templates, alike=alike)
            if not look_around:
                return counted

            def memes(ids: Sequence[str]) -> set[str]:
                return documents.purged(ids) | (plan.ids(ids) if plan else set())

            def pictures(keys: Sequence[str]) -> set[str]:
                return documents.orphans(keys) | (plan.pictures(keys) if plan else set())

            datasets = [self._told(holding, None) for holding in self._holdings(memes, pictures, progress)]
            return replace(counted, datasets=datasets, pages=self._pages(memes))

    def run(self) -> Purged:
        """Remove, finish what earlier purges left, and say what is left to do."""
        documents, choice = self._documents, self._choice
        with open_progress() as progress:
            absent = self._absent()
            memes = remove(documents, choice) if choice else 0
            finished = finish(documents, self._blobs)
            swept, young = sweep(documents, self._blobs) if self._orphans else (None, None)
            alike = choice.similar(documents) if choice else []
            counted = Purged(False, memes, finished.blobs, absent, finished.templates, swept, young, alike)
            datasets = []
            for holding in self._holdings(documents.purged, documents.orphans, progress):
                work = self._remove_work(holding.folder) if memes or holding.memes else None
                datasets.append(self._told(holding, work))
            scrubbed = self._scrub()
        return replace(counted, datasets=datasets, pages=self._pages(documents.purged), scrubbed=scrubbed)

    def close(self) -> None:
        """Give the stores back."""
        self._open.close()

    def _scrub(self) -> bool:
        try:
            return self._documents.scrub()
        except StoreUnavailable:
            return False

    def _absent(self) -> list[str]:
        ids = (self._choice.where.ids if self._choice else None) or ()
        there = {meme.id for meme in self._documents.scan(Where(ids=ids))} if ids else set()
        return sorted({*ids} - there)

    def _checked(self, folders: Sequence[Path]) -> list[Path]:
        """`dataset.output`, if there is anything, and `folders`; each once."""
        for folder in folders:
            if not (folder / MANIFEST).is_file():
                raise NotADataset(f"{folder}: no dataset here (no {MANIFEST}); nothing was removed")
        output = Path(self._config.dataset.output)
        there = [output] if (output / MANIFEST).is_file() or work_folder(output).exists() else []
        return list({folder.resolve(): folder for folder in (*folders, *there)}.values())

    def _holdings(
        self,
        memes: Callable[[Sequence[str]], set[str]],
        pictures: Callable[[Sequence[str]], set[str]],
        progress: Progress,
    ) -> Iterator[Holding]:
        for folder in self._folders:
            there = (folder / MANIFEST).is_file()
            yield find_removed(folder, memes, pictures, progress) if there else Holding(folder)

    def _told(self, holding: Holding, work: str | None) -> Dataset:
        return Dataset(holding, self._rebuild(holding) if holding.concerned else None, work)

    def _remove_work(self, folder: Path) -> str | None:
        try:
            return "removed" if remove_work(folder) else None
        except MemeloomError as error:
            return str(error)

    def _pages(self, memes: Callable[[Sequence[str]], set[str]]) -> list[Path]:
        return list(pages_showing(Path(self._config.runs), memes))

    def _rebuild(self, holding: Holding) -> str:
        """The command that builds a dataset again as it was built."""
        path, settings = self._context.path, _flat({"dataset": masked(load_config(self._context.path).dataset)})
        words = ["memeloom", *(["-c", str(path)] if path else [])]
        for override in self._context.overrides:
            key, _, value = override.partition("=")
            if key in ("store.documents", "store.blobs") and mask_url(value) == value:
                words += ["-s", override]
        built = _flat({"dataset": dict(holding.settings)})
        if holding.folder.resolve() != Path(settings.pop("dataset.output")).resolve():
            words += ["-s", f"dataset.output={holding.folder}"]
        for key, value in settings.items():
            if built.get(key, value) != value:
                words += ["-s", f"{key}={built[key] if isinstance(built[key], str) else json.dumps(built[key])}"]
        return shlex.join([*words, "build-dataset"])


def show_purge(purged: Purged) -> None:
    """Print what went, or would go, and what is left to do."""
    would = "would remove" if purged.planned else "removed"
    if not purged.anything:
        click.echo("no meme matches; nothing to remove" if purged.orphans is None else "nothing to remove")
    else:
        click.echo(f"{would}: memes {purged.memes:,}, pictures and masks {purged.blobs + (purged.orphans or 0):,}")
    if purged.absent:
        click.echo(f"not in the catalog: {_named(purged.absent)}")
    if purged.orphans is not None:
        click.echo(f"of them, what nothing referred to: {purged.orphans:,}; too young to tell: {purged.young or 0:,}")
    if purged.templates:
        click.echo(
            f"templates whose picture was made from what goes, and has to be made again (`memeloom templates run`):"
            f" {_named(purged.templates)}"
        )
    for bits, meme_id in purged.alike:
        shown = escape_controls(meme_id)
        click.echo(f"looks much the same and stays: {shown}, {bits} of 256 bits differ (--near {bits} takes it, too)")
    for dataset in purged.datasets:
        _show_dataset(dataset, purged.planned)
    if purged.scrubbed is False:
        click.echo(
            "the catalog is in use: what was removed can stand in its file; run this again when nothing else runs"
        )
    for page in purged.pages:
        what = "would be" if purged.planned else "was"
        click.echo(f"a page of an earlier run names a meme that {what} removed; delete it: {page}")


def _named(names: Sequence[str]) -> str:
    """The first few."""
    more = len(names) - _MOST_NAMED
    shown = ", ".join(escape_controls(name) for name in names[:_MOST_NAMED])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _show_dataset(dataset: Dataset, planned: bool) -> None:
    holding = dataset.holding
    if dataset.rebuild:
        parts = []
        if holding.fault:
            parts.append(f"cannot be read ({holding.fault})")
        if holding.memes or holding.pictures:
            parts.append(f"{holding.memes + holding.pictures:,} of {holding.records:,} records must go")
        if holding.templates:
            parts.append(f"{holding.templates:,} pictures of templates must go")
        then = " then" if planned else ""
        click.echo(f"dataset {holding.folder}: {'; '.join(parts)}; build it again{then}: {dataset.rebuild}")
    elif holding.records:
        click.echo(f"dataset {holding.folder}: none of {holding.records:,} records is concerned")
    if dataset.work == "removed":
        click.echo(f"dataset {holding.folder}: its work folder, which holds captions, is removed")
    elif dataset.work:
        click.echo(f"dataset {holding.folder}: its work folder holds captions still: {dataset.work}")


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by their full name: ``dataset.split.salt``."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(_flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {before + name: value})
    return flat
