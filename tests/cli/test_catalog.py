"""`memeloom stats`, `export` and `import` as people and programs use them."""

import json
from pathlib import Path

from memeloom.catalog.documents import StoredSketch
from memeloom.catalog.records import Meme, Template, TemplateRef
from tests.cli.conftest import Memeloom, catalog, fill

DOGE = Template(id="7", slug="doge", name="Doge", source="imgflip")


def doge_memes(count: int) -> list[Meme]:
    ref = TemplateRef(id="7", slug="doge", name="Doge")
    return [Meme(id=f"test:{n}", source="test", template=ref, boxes=(f"caption \x9b {n}",)) for n in range(count)]


def test_stats_and_export_of_a_missing_catalog_create_none(memeloom: Memeloom, tmp_path: Path) -> None:
    for arguments in (("stats",), ("stats", "--json"), ("export", "-")):
        result = memeloom(*arguments)
        assert (result.code, result.out) == (1, "")
        assert "data/catalog.db" in result.err
        assert result.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_stats_reads_a_read_only_catalog(memeloom: Memeloom, tmp_path: Path) -> None:
    fill(doge_memes(2), [DOGE])
    (tmp_path / "data" / "catalog.db").chmod(0o444)
    (tmp_path / "data").chmod(0o555)
    facts = json.loads(memeloom("stats", "--json").out)
    assert (facts["memes"], facts["templates"], facts["template_names"]) == (2, {"7": 2}, {"7": "Doge"})
    (tmp_path / "data").chmod(0o755)


def test_stats_shows_found_templates_and_unmatched_memes_only_where_there_are_some(memeloom: Memeloom) -> None:
    fill(doge_memes(1), [DOGE])
    shown = memeloom("stats").out
    assert "Doge (7)" in shown
    assert "unmatched memes" not in shown
    fill([], [DOGE.model_copy(update={"id": f"found:{state}", "state": state}) for state in ("found", "rejected")])
    with catalog() as documents:
        documents.put_sketches([StoredSketch("", f"test:{i}", b"") for i in range(3)])
    rows = [line.replace("│", " ").split() for line in memeloom("stats").out.splitlines() if "│" in line]
    for row in (["known", "1"], ["found", "1"], ["rejected", "1"], ["unmatched", "memes", "3"]):
        assert row in rows
    assert not [row for row in rows if row[0] == "merged"]
    facts = json.loads(memeloom("stats", "--json").out)
    assert (facts["template_records"], facts["unmatched"]) == ({"found": 1, "known": 1, "rejected": 1}, 3)


def test_export_writes_to_standard_output_and_import_reads_it_back(memeloom: Memeloom, tmp_path: Path) -> None:
    fill(doge_memes(3))
    result = memeloom("export", "-")
    assert result.code == 0
    assert [json.loads(line)["id"] for line in result.out.splitlines()] == ["test:0", "test:1", "test:2"]
    assert "\x9b" not in result.out
    assert not (tmp_path / "data" / "runs").exists()
    (tmp_path / "dump.jsonl").write_text(result.out, encoding="utf-8")
    elsewhere = ("-s", "store.documents=sqlite:///other.db")
    assert memeloom("import", "dump.jsonl", *elsewhere).code == 0
    assert memeloom("export", "-", *elsewhere).out == result.out


def test_import_shows_the_columns_that_it_read(memeloom: Memeloom, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("url,joke,n\nhttps://h.org/1.png,hello there,1\n")
    done = memeloom("import", "a.csv", "--map", "caption=joke", "--source-name", "mine")
    assert done.code == 0
    assert "columns: a.csv: image_url = url, caption = joke (not used: n)" in done.out
    with catalog() as documents:
        assert [(meme.source, meme.boxes) for meme in documents.scan()] == [("mine", ("hello there",))]


def test_import_suggests_the_nearest_name(memeloom: Memeloom, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("url,joke\nhttps://h.org/1.png,hello there\n")
    wrong = memeloom("import", "a.csv", "--map", "captoin=joke")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
    assert "no field 'captoin' (did you mean 'caption'?)" in wrong.err
    missing = memeloom("import", "a.csv", "--map", "caption=jok")
    assert (missing.code, "did you mean 'joke'?" in missing.err) == (1, True)
