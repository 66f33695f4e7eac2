"""The leaderboard: a Markdown table of models, fewest bits per character first.

A model replaces the row with equal name, kind, dataset and split.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from memeloom.configs.errors import MemeloomError
from memeloom.configs.locks import exclusive
from memeloom.configs.outputs import write_text
from memeloom.report.format import duration
from memeloom.report.markdown import foreign, table
from memeloom.train.evaluation.results import Results

_HEAD: Final = (
    "model", "kind", "parameters", "bits/char", "accuracy", "of", "perplexity/char", "trained", "device", "commit",
    "dataset", "split", "captions",
)  # fmt: skip
_KEY: Final = tuple(_HEAD.index(name) for name in ("model", "kind", "dataset", "split"))
_BITS: Final = _HEAD.index("bits/char")
_BEGIN: Final = f"| {' | '.join(_HEAD)} |"
# Writing a row takes milliseconds.
_WAIT_SECONDS = 30.0
_ABOUT: Final = """# Leaderboard

Models by the likelihood of held-out captions, fewest bits per character first (each box ends with a separator, which
counts as a character). Compare rows of one dataset only: `dataset` is the first digits of its digest. Accuracy is of
the model's own tokens. `trained` is the time until the weights that were kept, on `device`, by the code at `commit`.
`memeloom evaluate MODEL --leaderboard docs/leaderboard.md` adds a model, or replaces its row.

"""


def check_leaderboard(path: Path) -> None:
    """Check that `add_to_leaderboard` can change the page at `path`; raises the same errors."""
    with _locked(path):
        _read(path)


def add_to_leaderboard(path: Path, results: Results) -> None:
    """Add the models of `results` to the page at `path`, or replace their rows; create the page if missing.

    Safe for concurrent evaluations.

    Raises:
        MemeloomError: the page has no such table, or an invalid row; or it cannot be written.
    """
    with _locked(path):
        before, rows, after = _read(path)
        by_key = {_key(row): row for row in [*rows, *_rows(results)]}
        ordered = sorted(by_key.values(), key=lambda row: (float(row[_BITS]), row))
        lines = [table(_HEAD, ()), *(f"| {' | '.join(row)} |" for row in ordered)]
        write_text(path, before + "\n".join(lines) + "\n" + after)


def _locked(path: Path) -> AbstractContextManager[None]:
    busy = f"{path}: another evaluation has been writing it for {_WAIT_SECONDS:.0f} s"
    return exclusive(path, busy, wait_seconds=_WAIT_SECONDS)


def _rows(results: Results) -> Iterator[tuple[str, ...]]:
    for model in results.models:
        found, trained = model.likelihood, model.trained
        cells = (
            model.name,
            model.kind,
            "–" if model.parameters is None else f"{model.parameters:,}",
            f"{found.bits_per_character.value:.4f}",
            "–" if found.accuracy is None else f"{100 * found.accuracy.value:.2f} %",
            f"{model.unit}s",
            f"{found.perplexity_per_character:.3f}",
            "–" if trained.seconds is None else duration(trained.seconds),
            trained.on or "–",
            trained.commit or "–",
            results.digest,
            results.split,
            f"{found.captions:,}",
        )
        yield tuple(map(foreign, cells))


def _read(path: Path) -> tuple[str, list[tuple[str, ...]], str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _ABOUT, [], ""
    except (OSError, UnicodeDecodeError) as error:
        raise MemeloomError(f"{path}: the leaderboard cannot be read ({error})") from error
    lines = text.splitlines(keepends=True)
    stripped = [line.strip() for line in lines]
    if _BEGIN not in stripped:
        raise MemeloomError(f"{path}: no leaderboard (no line {_BEGIN!r}); name another file, or a new one")
    begin = stripped.index(_BEGIN)
    end = next((at for at in range(begin, len(lines)) if not stripped[at].startswith("|")), len(lines))
    rows = [_parsed(path, number + 1, stripped[number]) for number in range(begin + 2, end)]
    return "".join(lines[:begin]), rows, "".join(lines[end:])


def _parsed(path: Path, number: int, line: str) -> tuple[str, ...]:
    # A bar inside a cell has a backslash before it.
    cells = tuple(cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|"))
    cells = tuple(cell.replace("\0", "\\|") for cell in cells)
    try:
        float(cells[_BITS])
    except (IndexError, ValueError):
        cells = ()
    if len(cells) != len(_HEAD):
        raise MemeloomError(f"{path}: line {number} is no row of the leaderboard; correct or remove it")
    return cells


def _key(row: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[place] for place in _KEY)
