"""The leaderboard: a Markdown page with a row a model, fewest bits per character first.

A model is the same as another if name, kind, dataset and split are: its row is replaced.
"""

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import write_text
from memeloom.report.markdown import foreign, table
from memeloom.train.evaluation.results import Results

_HEAD: Final = (
    "model", "kind", "parameters", "bits/char", "accuracy", "of", "perplexity/char", "trained", "device", "commit",
    "dataset", "split", "captions",
)  # fmt: skip
_KEY: Final = tuple(_HEAD.index(name) for name in ("model", "kind", "dataset", "split"))
_BITS: Final = _HEAD.index("bits/char")
# Who has the page needs milliseconds.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 30.0, 0.02
_BEGIN: Final = f"| {' | '.join(_HEAD)} |"
_ABOUT: Final = """# Leaderboard

Models by how well they foretell captions that they never saw, fewest bits per character first (every box ends with a
separator, which is a character, too). Compare rows of one dataset only: `dataset` is the first digits of its digest.
Accuracy is of the model's own tokens. `trained` is the time until the weights that were kept, on `device`, by the code
at `commit`. `memeloom evaluate MODEL --leaderboard docs/leaderboard.md` adds a model, or replaces its row.

"""


def check_leaderboard(path: Path) -> None:
    """See that `add_to_leaderboard` can do its work at `path`.

    Raises:
        MemeloomError: the page holds no such table, or a row that cannot be read; or its folder cannot be written.
    """
    with _alone(path):
        _read(path)


def add_to_leaderboard(path: Path, results: Results) -> None:
    """Add the models of `results` to the page at `path`, or replace their rows; a page that is not there is made.

    Several may add to one page at the same time: each waits for the others.

    Raises:
        MemeloomError: the page holds no such table, or a row that cannot be read; or it cannot be written.
    """
    with _alone(path):
        before, rows, after = _read(path)
        held = {_key(row): row for row in rows}
        held |= {_key(row): row for row in _rows(results)}
        ordered = sorted(held.values(), key=lambda row: (float(row[_BITS]), row))
        write_text(path, f"{before}{_table(ordered)}\n{after}")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the right to change the page at `path`; the system takes it back when the process dies."""
    lock_path = path.parent / f".{path.name}.lock"
    try:
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        lock = lock_path.open("w")
    except OSError as error:
        raise MemeloomError(f"cannot write {lock_path}: {error.strerror or error}") from error
    with lock:
        patience_ends = time.monotonic() + _PATIENCE_SECONDS
        while not _taken(lock):
            if time.monotonic() > patience_ends:
                raise MemeloomError(f"{path}: another evaluation has been writing it for {_PATIENCE_SECONDS:.0f} s")
            time.sleep(_PAUSE_SECONDS)
        yield


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _rows(results: Results) -> Iterator[tuple[str, ...]]:
    for model in results.models:
        found, trained = model.likelihood, model.trained
        yield tuple(
            map(
                foreign,
                (
                    model.name,
                    model.kind,
                    f"{model.parameters:,}",
                    f"{found.bits_per_character.value:.4f}",
                    f"{100 * found.accuracy.value:.2f} %",
                    f"{model.unit}s",
                    f"{found.perplexity_per_character:.3f}",
                    "–" if trained.seconds is None else _duration(trained.seconds),
                    trained.on or "–",
                    trained.commit or "–",
                    results.digest,
                    results.split,
                    f"{found.captions:,}",
                ),
            )
        )


def _read(path: Path) -> tuple[str, list[tuple[str, ...]], str]:
    """What stands before the table, its rows as Markdown, and what stands behind it."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _ABOUT, [], ""
    except (OSError, UnicodeDecodeError) as error:
        raise MemeloomError(f"{path}: the leaderboard cannot be read ({error})") from error
    lines = text.splitlines(keepends=True)
    stripped = [line.strip() for line in lines]
    if _BEGIN not in stripped:
        raise MemeloomError(f"{path}: no leaderboard (no line {_BEGIN!r}); name another file, or one that is not there")
    begin = stripped.index(_BEGIN)
    end = next((at for at in range(begin, len(lines)) if not stripped[at].startswith("|")), len(lines))
    rows = [_checked(path, number + 1, stripped[number]) for number in range(begin + 2, end)]
    return "".join(lines[:begin]), rows, "".join(lines[end:])


def _checked(path: Path, number: int, line: str) -> tuple[str, ...]:
    # A bar inside of a cell has a backslash before it.
    cells = tuple(cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|"))
    cells = tuple(cell.replace("\0", "\\|") for cell in cells)
    try:
        float(cells[_BITS])
    except (IndexError, ValueError):
        cells = ()
    if len(cells) != len(_HEAD):
        raise MemeloomError(f"{path}: line {number} is no row of the leaderboard; mend it or take it out")
    return cells


def _key(row: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[place] for place in _KEY)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """The cells are Markdown already."""
    return "\n".join([table(_HEAD, ()), *(f"| {' | '.join(row)} |" for row in rows)])


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
