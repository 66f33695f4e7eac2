"""With ``log.format: json`` commands write nothing but JSON lines."""

import json

from memeloom.catalog.records import Meme
from tests.cli.conftest import Memeloom, fill

JSON = ("-s", "log.format=json")


def test_progress_and_summary_of_a_stage_are_json_lines(memeloom: Memeloom) -> None:
    fill([Meme(id="test:1", source="test")])
    result = memeloom(*JSON, "backup", "copy")
    assert (result.code, result.out) == (0, "")
    lines = [json.loads(line) for line in result.err.splitlines()]
    assert all({"time", "level", "stage", "message"} <= line.keys() for line in lines)
    *progress, last = lines
    assert {line["message"] for line in progress} == {"progress"}
    assert (last["stage"], last["message"], last["counts"]["memes"]) == ("backup", "run ended", 1)
    assert last["run_record"].endswith("run.json")


def test_an_error_is_a_json_line_without_secrets(memeloom: Memeloom) -> None:
    result = memeloom(
        *JSON, "-s", "store.timeout_seconds=1", "-s", "store.documents=mongodb://me:hunter22@127.0.0.1:1/x", "stats"
    )
    (line,) = [json.loads(each) for each in result.err.splitlines()]
    assert (result.code, line["level"], line["stage"], line["exit_code"]) == (1, "error", "stats", 1)
    assert "127.0.0.1" in line["message"]
    assert "hunter22" not in result.err
