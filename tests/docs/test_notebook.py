"""docs/notebook.ipynb runs from the first cell to the last, in a kernel of its own."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS

NOTEBOOK = DOCS / "notebook.ipynb"
FIRST = 1
MEMES = "Internet(memes=960)"


@pytest.mark.filterwarnings("default")  # of the Jupyter packages, which are not ours
def test_the_notebook_runs_and_shows_what_its_committed_outputs_show(tmp_path: Path) -> None:
    import nbformat  # with nbclient, compiles grammars for seconds
    from nbclient import NotebookClient

    committed = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert MEMES in notebook.cells[FIRST].source
    # A quarter of the memes shows the same in half of the time.
    notebook.cells[FIRST].source = notebook.cells[FIRST].source.replace(MEMES, "Internet(memes=240)")
    client = NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    for cell, before in zip(notebook.cells, committed.cells, strict=True):
        kinds = [sorted(output.get("data", {})) for output in cell.get("outputs", [])]
        for kind, shown in zip(kinds, before.get("outputs", []), strict=True):
            assert set(shown.get("data", {})) <= set(kind)
    text = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert text.count("all i wanted") == 3
    assert text.count("\n") >= 16  # a meme, three records, twelve templates
    assert NOTEBOOK.stat().st_size < 300_000
