"""`memeloom templates`: what it prints, its exit codes, and that the plain command still runs the stage."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Meme, Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.cli.main import main
from memeloom.configs.load import load_config
from memeloom.demo import scenes
from memeloom.serve.drawing import draw_caption

TEXTS = (("when it works", "the first time"), ("nobody", "asked for this"), ("one more", "cup of coffee"))


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DocumentStore:
    """The catalog of this folder: three captions on one scene, and a template that has no picture."""
    monkeypatch.chdir(tmp_path)
    store = load_config(environment={}).store
    documents, blobs = open_documents(store), open_blobs(store)
    scene = next(
        function for name, function in sorted(vars(scenes).items())
        if getattr(function, "__module__", "") == scenes.__name__ and not name.startswith("_")
    )  # fmt: skip
    for number, texts in enumerate(TEXTS):
        pixels = np.asarray(draw_caption(Pillow.fromarray(np.asarray(scene(), np.uint8)), (), list(texts)))
        data = cv2.imencode(".jpg", pixels[:, :, ::-1])[1].tobytes()
        blobs.put(data)
        image = inspect_image(data, max_bytes=10**8, max_pixels=10**8)
        documents.upsert([Meme(id=f"test:{number}", source="test", image=image)])
    documents.upsert_templates([Template(id="other", slug="other", name="Other [bold]\x1b[2J", source="test")])
    return documents


def templates(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["-s", "engine.workers=1", "templates", *arguments])
    return int(ended.value.code or 0)


def found(documents: DocumentStore) -> Template:
    (template,) = (each for each in documents.templates() if each.source == "found")
    return template


@pytest.mark.parametrize("command", [(), ("run",)])
def test_a_run_tells_what_it_found_and_how_to_go_on(
    documents: DocumentStore, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert templates(*command) == 0
    said = capsys.readouterr().out
    assert "templates found" in said
    assert "`memeloom templates list --state found` lists them" in said
    assert "report: data/runs/templates-" in said
    assert templates(*command) == 0
    assert "templates found" not in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "inpaints"), [((), False), (("--inpaint",), True)])
def test_words_are_taken_off_if_that_is_wanted(
    documents: DocumentStore, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], inpaints: bool
) -> None:
    assert templates("run", *arguments) == 0
    assert ("inpaint: done" in capsys.readouterr().out) == inpaints
    assert [meme.clean is not None for meme in documents.scan()] == [inpaints] * len(TEXTS)


def test_decisions_are_taken_by_command(documents: DocumentStore, capsys: pytest.CaptureFixture[str]) -> None:
    templates()
    template_id = found(documents).id
    capsys.readouterr()
    assert templates("list") == 0
    listed = capsys.readouterr().out
    assert template_id in listed
    assert "Other [bold]" in listed
    assert "\x1b[2J" not in listed
    assert templates("reject", template_id) == 0
    assert capsys.readouterr().out == (
        f"{template_id} is rejected; memeloom templates name {template_id} NAME brings it back\n"
    )
    assert templates("name", template_id, "It's $HOME") == 0
    assert found(documents).name == "It's $HOME"
    assert templates("merge", template_id, "other") == 0
    assert {meme.template.id for meme in documents.scan() if meme.template} == {"other"}
    capsys.readouterr()
    assert templates("list", "--json", "--state", "merged") == 0
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    assert (record["id"], record["merged_into"], record["members"]) == (template_id, "other", 0)


def test_a_template_is_shown_with_its_page(
    documents: DocumentStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    templates()
    capsys.readouterr()
    assert templates("show", found(documents).id, "--out", "page.html") == 0
    said = capsys.readouterr().out
    assert found(documents).id in said
    assert "page: page.html" in said
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("documents")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "othr"), "did you mean other?"),
        (("reject", "zzzzz"), "memeloom templates list shows them"),
        (("merge", "other", "other"), "cannot be merged into itself"),
        (("name", "other", " "), "a name that is not empty"),
        (("list", "--state", "lost"), "'lost' is not one of"),
        (("run", "--failed", "--again"), "--failed goes with neither"),
    ],
)
def test_bad_usage_is_one_clear_line(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert templates(*arguments) == 2
    assert said in capsys.readouterr().err


def test_what_failed_is_listed(documents: DocumentStore, capsys: pytest.CaptureFixture[str]) -> None:
    meme = documents.get("test:0")
    assert meme is not None
    assert meme.image is not None
    open_blobs(load_config(environment={}).store).delete(meme.image.key)
    templates("run")
    assert "`memeloom templates run --failed` lists" in capsys.readouterr().out
    assert templates("run", "--failed") == 0
    assert capsys.readouterr().out == "test:0\timage missing\n"
