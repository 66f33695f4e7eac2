"""Untrusted text reaches the terminal without control characters."""

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from memeloom.catalog.records import Meme, TemplateRef
from memeloom.cli.terminal import add_row, count_table, echo_json, facts_table, new_table
from tests.cli.conftest import Memeloom, catalog, fill

EVIL = "\x1b]0;owned\x07\x9b31m\u202e[bold]é"
ESCAPED = "\\u001b]0;owned\\u0007\\u009b31m\\u202e[bold]é"


def test_tables_escape_titles_and_cells() -> None:
    out = Console(file=io.StringIO(), width=200, record=True)
    table = new_table(EVIL, "what")
    add_row(table, EVIL)
    for each in (table, facts_table(EVIL, {"name": EVIL}), count_table(EVIL, ("what", "count"), {EVIL: 1})):
        out.print(each)
    shown = out.export_text()
    assert shown.count(ESCAPED) == 6
    assert not set("\x1b\x07\x9b\u202e") & set(shown)


def test_json_stays_the_same_json(capsys: pytest.CaptureFixture[str]) -> None:
    echo_json({"name": EVIL})
    written = capsys.readouterr().out
    assert json.loads(written) == {"name": EVIL}
    assert "\x9b" not in written
    assert written.count("\n") == 3


def test_failures_are_listed_without_control_characters(memeloom: Memeloom, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = [("imgflip", SimpleNamespace(reason=EVIL, url=EVIL, host=EVIL, at=0.0, tries=1))]
    monkeypatch.setattr("memeloom.scrapers.frontier.dead_letters.failed_requests", lambda *_: iter(dead))
    fill([Meme(id=f"test:{EVIL}", source="test")])
    with catalog() as documents:
        documents.record_failures("ocr", {f"test:{EVIL}": EVIL})
    result = memeloom("failed")
    assert result.code == 0
    assert f"{ESCAPED}\t{ESCAPED}\nocr\t\t{ESCAPED}\ttest:{ESCAPED}\n" in result.out
    assert not set("\x1b\x07\x9b\u202e") & set(result.out + result.err)


def test_stats_and_errors_are_without_control_characters(memeloom: Memeloom) -> None:
    fill([Meme(id="test:1", source=f"te{EVIL}st", template=TemplateRef(id=EVIL, slug="s", name=EVIL))])
    for arguments in (("stats",), ("stats", "--json"), (f"sta{EVIL}",), ("-s", f"store.documents={EVIL}", "stats")):
        result = memeloom(*arguments)
        assert not set("\x1b\x07\x9b\u202e") & set(result.out + result.err), arguments
