"""`memeloom backup` and `memeloom restore` as people use them."""

import json
import shutil
from pathlib import Path

from memeloom.catalog.records import Meme
from tests.cli.conftest import Memeloom, fill


def test_a_lost_catalog_comes_back(memeloom: Memeloom, tmp_path: Path) -> None:
    fill([Meme(id=f"test:{n}", source="test", boxes=(f"caption {n}",)) for n in range(3)])
    saved = memeloom("backup", "copy")
    assert (saved.code, "memes" in saved.out) == (0, True)
    refused = memeloom("restore", "copy")
    assert (refused.code, refused.err.count("\n"), "move it away" in refused.err) == (1, 1, True)
    shutil.rmtree(tmp_path / "data")
    assert memeloom("restore", "copy").code == 0
    assert json.loads(memeloom("stats", "--json").out)["memes"] == 3


def test_a_backup_of_no_catalog_says_so(memeloom: Memeloom) -> None:
    result = memeloom("backup", "copy")
    assert (result.code, "no such catalog" in result.err) == (1, True)
