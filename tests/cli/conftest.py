"""Commands run in this process, in a folder of their own, and catalogs for them."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.records import Meme, Template
from memeloom.catalog.stores import open_documents
from memeloom.cli.main import main
from memeloom.configs.load import load_config


class Result(NamedTuple):
    """What a command left: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


Memeloom: TypeAlias = Callable[..., Result]


@pytest.fixture
def memeloom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Memeloom:
    """Runs a command in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        written = capsys.readouterr()
        return Result(int(ended.value.code or 0), written.out, written.err)

    return call


def catalog() -> AbstractContextManager[DocumentStore]:
    """Open the catalog in the working folder that commands find by default."""
    return closing(open_documents(load_config(environment={}).store))


def fill(memes: Iterable[Meme], templates: Iterable[Template] = ()) -> None:
    """Store records in that catalog."""
    with catalog() as documents:
        documents.upsert_templates(templates)
        documents.upsert(memes)
