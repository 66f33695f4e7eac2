"""`memeloom ocr --failed` and `--retry-failed`: what could not be read is seen, and tried again on request only."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.records import Image, Meme
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.cli.main import main
from memeloom.configs.load import load_config


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DocumentStore:
    """The catalog of this folder: one meme, whose picture is a page of text."""
    monkeypatch.chdir(tmp_path)
    store = load_config(environment={}).store
    data = b"<html>404</html>"
    image = Image(
        key=open_blobs(store).put(data), width=9, height=9, format="png", bytes=len(data), phash64="0" * 16,
        phash256="0" * 64,
    )  # fmt: skip
    documents = open_documents(store)
    documents.upsert([Meme(id="test:1", source="test", image=image, fetched_at=datetime(2020, 1, 1, tzinfo=UTC))])
    return documents


def ocr(*options: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["-s", "engine.workers=1", "-s", "ocr.engine=tesseract", "ocr", *options])
    return int(ended.value.code or 0)


def test_what_failed_is_listed_and_tried_again_on_request(
    documents: DocumentStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ocr("--failed") == 0
    assert capsys.readouterr().out == ""
    assert ocr() == 0
    said = capsys.readouterr().out
    assert "`memeloom ocr --failed` lists the memes that failed" in said
    assert "not an image" in said
    assert ocr("--failed") == 0
    assert capsys.readouterr().out == "test:1\tnot an image\n"
    assert ocr() == 0
    assert "not an image" not in capsys.readouterr().out
    assert ocr("--retry-failed") == 0
    assert "not an image" in capsys.readouterr().out
    assert documents.counts().stages["ocr"].failed == 1


@pytest.mark.usefixtures("documents")
def test_workers_run_where_the_option_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMELOOM_ENGINE__RAY_ADDRESS", "127.0.0.1:9")
    # With the cluster out of reach, or Ray not installed, only who was asked to can complain.
    assert ocr("--engine", "ray") == 1
    assert "Ray" in capsys.readouterr().err
    assert ocr("--engine", "local") == 0


@pytest.mark.parametrize("options", [("--failed", "--retry-failed"), ("--failed", "--inspect", "x")])
def test_ways_to_run_exclude_each_other(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert ocr(*options) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_run_without_work_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ocr() == 0
    assert "ocr: there was nothing to do" in capsys.readouterr().out
