"""Captions are rated in a real terminal; a rater that is killed loses at most the caption in progress."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memeloom.train.evaluation.reading.sheet import Item, Key, Mixed, Sheet, write_mixed

SHEET = "0123456789ab"
BOXES = [("such data",), ("", "wow \x1b[31m"), ("so many", "cats"), ("very end",)]


class Terminal:
    """`memeloom evaluate --rate` in a terminal of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._screen, inside = pty.openpty()
        rate = [sys.executable, "-m", "memeloom.cli.main", "evaluate", "--rate", "--output", str(folder), *arguments]
        self.process = subprocess.Popen(["setsid", "--ctty", *rate], stdin=inside, stdout=inside, stderr=inside)
        os.close(inside)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Return once the terminal shows `text` after what was waited for before; fails if that takes a minute."""
        while text not in self.shown:
            assert select.select([self._screen], [], [], 20)[0], f"{text!r} is missing in {self.shown!r}"
            try:
                self.shown += os.read(self._screen, 4096).decode()
            except OSError:  # the program has ended
                raise AssertionError(f"{text!r} is missing in {self.shown!r}") from None
        self.seen, _, self.shown = self.shown.partition(text)

    def answer(self, keys: str) -> None:
        """Answer the questions about the next caption."""
        self.wait_for("Grammatical? ")
        os.write(self._screen, keys.encode())

    def ended(self) -> int:
        """Wait until the program ends; return its exit code."""
        return self.process.wait(20)

    def close(self) -> None:
        """Kill what still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._screen)


Rate: TypeAlias = Callable[..., Terminal]


@pytest.fixture
def rate(tmp_path: Path) -> Iterator[Rate]:
    """A function that starts to rate the sheet in the test's folder."""
    items = tuple(Item(number=at, template="Doge", boxes=boxes) for at, boxes in enumerate(BOXES, start=1))
    key = Key(sheet=SHEET, about={}, authors=(), items=())
    write_mixed(tmp_path, Mixed(Sheet(sheet=SHEET, items=items), key, []))
    with ExitStack() as stack:

        def start(*arguments: str) -> Terminal:
            terminal = Terminal(tmp_path, *arguments)
            stack.callback(terminal.close)
            return terminal

        yield start


def ratings(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ratings.jsonl").read_text().splitlines()]


def rated(folder: Path) -> list[tuple[int, str]]:
    """Number and answers of each line."""
    names = ("grammatical", "fits", "post")
    return [(each["number"], "".join("ny"[each[name]] for name in names)) for each in ratings(folder)]


def test_each_caption_is_shown_and_rated_by_three_keys(rate: Rate, tmp_path: Path) -> None:
    terminal = rate("--rater", "ann")
    terminal.wait_for("Rating as ann")
    terminal.answer("yyn")
    terminal.wait_for("Caption 2 of 4")
    terminal.answer("x\x1b[Bé\rynn")
    terminal.answer("nnn")
    terminal.answer("yyy")
    terminal.wait_for("4 of 4 captions rated")
    assert terminal.ended() == 0
    assert rated(tmp_path) == [(1, "yyn"), (2, "ynn"), (3, "nnn"), (4, "yyy")]
    assert {(each["rater"], each["sheet"]) for each in ratings(tmp_path)} == {("ann", SHEET)}


def test_a_killed_rater_continues_with_the_caption_in_progress(rate: Rate, tmp_path: Path) -> None:
    terminal = rate()
    terminal.wait_for("Rating as ")
    terminal.answer("yyn")
    terminal.answer("ynn")
    terminal.answer("yy")
    terminal.wait_for("Would post? ")
    os.kill(terminal.process.pid, signal.SIGKILL)
    assert terminal.ended() == -signal.SIGKILL
    assert rated(tmp_path) == [(1, "yyn"), (2, "ynn")]
    rater = ratings(tmp_path)[0]["rater"]
    assert re.fullmatch("[a-z]{4}", rater)
    with (tmp_path / "ratings.jsonl").open("a") as file:
        file.write('{"number": 3, "gramm')
    again = rate()
    again.wait_for(f"Rating as {rater}")
    again.wait_for("Caption 3 of 4")
    again.answer("nny")
    again.answer("q")
    again.wait_for("3 of 4 captions rated")
    assert again.ended() == 0
    *_, cut, last = (tmp_path / "ratings.jsonl").read_text().splitlines()
    assert cut == '{"number": 3, "gramm', "what a killed process left is a line of its own"
    assert json.loads(last) == {
        "number": 3, "grammatical": False, "fits": False, "post": True, "rater": rater, "sheet": SHEET,
    }  # fmt: skip


def test_a_rating_is_corrected_by_going_back(rate: Rate, tmp_path: Path) -> None:
    terminal = rate("--rater", "ann")
    terminal.answer("yyy")
    terminal.answer("yb")
    terminal.wait_for("Caption 1 of 4")
    terminal.answer("nnn")
    terminal.wait_for("Caption 2 of 4")
    terminal.answer("\x04")
    terminal.wait_for("1 of 4 captions rated")
    assert terminal.ended() == 0
    assert rated(tmp_path) == [(1, "yyy"), (1, "nnn")]


def test_raters_do_not_share_what_they_rated(rate: Rate, tmp_path: Path) -> None:
    for rater in ("ann", "bob"):
        terminal = rate("--rater", rater)
        terminal.wait_for("Caption 1 of 4")
        terminal.answer("yyy")
        terminal.answer("q")
        assert terminal.ended() == 0
    assert [(each["rater"], each["number"]) for each in ratings(tmp_path)] == [("ann", 1), ("bob", 1)]


def test_control_characters_of_captions_do_not_reach_the_terminal(rate: Rate) -> None:
    terminal = rate()
    terminal.answer("yyy")
    terminal.answer("q")
    terminal.ended()
    assert "\x1b[31m" not in terminal.seen + terminal.shown
    assert "(left blank)" in terminal.seen


def test_ctrl_c_ends_the_rating_and_keeps_what_is_rated(rate: Rate, tmp_path: Path) -> None:
    terminal = rate()
    terminal.answer("yyy")
    terminal.answer("\x03")
    assert terminal.ended() == 130
    assert rated(tmp_path) == [(1, "yyy")]
