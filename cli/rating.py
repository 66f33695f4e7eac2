"""`memeloom evaluate --rate`: rate the captions of a reading sheet in the terminal, a key an answer."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memeloom.report.format import escape_controls

if TYPE_CHECKING:
    from memeloom.configs.schema import Config
    from memeloom.train.evaluation.reading.ratings import RatingsFile
    from memeloom.train.evaluation.reading.sheet import Item

_YES, _NO, _BACK, _QUIT = "y", "n", "b", "q"
# Ctrl-D, and the end of input.
_END = (b"\x04", b"")


def rate(config: Config, rater: str | None) -> None:
    """Ask about each caption of the sheet in `evaluate.output` that `rater` has not rated yet.

    Answers are appended to `ratings.jsonl` beside the sheet, after the last question about a caption.

    Raises:
        UsageError: there is no terminal, or `rater` cannot be a name.
        NotASheet: there is no sheet, or a damaged one.
        MemeloomError: the ratings cannot be read or written.
    """
    from memeloom.train.evaluation.reading.ratings import RATINGS, RatingsFile, check_rater
    from memeloom.train.evaluation.reading.sheet import read_sheet

    folder = Path(config.evaluate.output)
    sheet = read_sheet(folder)
    if rater is not None:
        try:
            rater = check_rater(rater)
        except ValueError as error:
            raise click.UsageError(f"--rater: {error}") from None
    if not sys.stdin.isatty():
        raise click.UsageError(f"--rate needs a terminal; ratings may also be written to {folder / RATINGS} by hand")
    ratings = RatingsFile(folder / RATINGS, sheet, rater)
    click.echo(
        f"Rating as {escape_controls(ratings.rater)} (--rater NAME for another). Keys: y yes, n no, b back, q quit."
    )
    with _unbuffered():
        _ask_all(sheet.items, ratings)
    click.echo(f"\n{len(ratings.rated)} of {len(sheet.items)} captions rated: {escape_controls(str(folder / RATINGS))}")
    click.echo("`memeloom evaluate --ratings` reports them.")


def _ask_all(items: tuple[Item, ...], ratings: RatingsFile) -> None:
    """Ask until all are rated or the rater quits; back is the caption before, however it was rated."""
    at = _next(items, ratings, 0)
    while at < len(items):
        answers = _ask(items[at], len(items))
        if answers == _QUIT:
            return
        if answers == _BACK:
            at = max(at - 1, 0)
            continue
        ratings.append(items[at].number, tuple(answer == _YES for answer in answers))
        at = _next(items, ratings, at + 1)


def _next(items: tuple[Item, ...], ratings: RatingsFile, first: int) -> int:
    """Return the index of the next item from `first` on that is not rated, or else of the first such one."""
    order = [*range(first, len(items)), *range(first)]
    return next((at for at in order if items[at].number not in ratings.rated), len(items))


def _ask(item: Item, count: int) -> str:
    """Show a caption and ask its questions; return a key each, or the key that ends it."""
    from memeloom.train.evaluation.reading.sheet import QUESTIONS

    click.echo(f"\nCaption {item.number} of {count} · {click.style(escape_controls(item.template), bold=True)}")
    for box in item.boxes:
        click.echo(f"    {escape_controls(box) or click.style('(left blank)', dim=True)}")
    answers = ""
    for question in QUESTIONS:
        click.echo(f"{question.label}? ", nl=False)
        key = _key()
        click.echo({_YES: "yes", _NO: "no", _BACK: "back", _QUIT: "quit"}[key])
        if key in (_BACK, _QUIT):
            return key
        answers += key
    return answers


@contextmanager
def _unbuffered() -> Iterator[None]:
    """Let keys arrive without Enter, and not be shown. Keys that were pressed ahead are kept."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _key() -> str:
    """Wait for a key that means something; capitals do not, for they end the sequences of other keys."""
    while True:
        pressed = os.read(sys.stdin.fileno(), 1)
        if pressed in _END:
            return _QUIT
        if (key := pressed.decode("latin-1")) in (_YES, _NO, _BACK, _QUIT):
            return key
