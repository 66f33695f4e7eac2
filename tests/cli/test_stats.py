"""`memeloom stats` as people and programs read it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from memeloom.catalog.documents import StoredSketch
from memeloom.catalog.records import Meme, Template, TemplateRef
from memeloom.catalog.stores import open_documents
from memeloom.cli.main import cli
from memeloom.configs.schema import Store


@pytest.fixture
def shown(store_config: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """A runner in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return CliRunner()


def stats(runner: CliRunner, store: Store, *options: str) -> str:
    result = runner.invoke(cli, ["-s", f"store.documents={store.documents}", "stats", *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_found_templates_and_unmatched_memes_are_shown_only_where_there_are_some(
    store_config: Store, shown: CliRunner
) -> None:
    known = Template(id="1", slug="s", name="n", source="imgflip")
    documents = open_documents(store_config)
    documents.upsert_templates([known])
    documents.upsert([Meme(id="test:1", source="test", template=TemplateRef(id="1", slug="s", name="n"))])
    assert "unmatched memes" not in stats(shown, store_config)
    documents.upsert_templates(
        known.model_copy(update={"id": f"found:{state}", "state": state}) for state in ("found", "rejected")
    )
    documents.put_sketches([StoredSketch("", f"test:{i}", b"") for i in range(3)])
    documents.close()
    lines = [line.split() for line in stats(shown, store_config).splitlines()]
    counts = {line[1]: line[3] for line in lines if len(line) == 5}
    assert {name: counts[name] for name in ("known", "found", "rejected")} == {
        "known": "1", "found": "1", "rejected": "1",
    }  # fmt: skip
    assert "unmatched memes" in stats(shown, store_config)
    assert "merged" not in counts
    facts = json.loads(stats(shown, store_config, "--json"))
    assert (facts["template_records"], facts["unmatched"]) == ({"found": 1, "known": 1, "rejected": 1}, 3)
    assert facts["templates"] == {"1": 1}
