"""The table of one picture's reading: its text boxes, and the words that were taken out."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded by the command only when it reads
    from pathlib import Path

    from rich.text import Text

    from memeloom.ocr.inspect import Look


def show_look(look: Look, drawn: Path) -> None:
    """Print what was read and what was taken out, how sure, and where it is drawn."""
    from rich.table import Table

    from memeloom.cli.summary import console

    verdict = f"dropped: {look.ocr.dropped}" if look.ocr.dropped else "a caption"
    table = Table(title=printable(f"{look.subject.name}: {verdict}"), title_style="bold", title_justify="left")
    table.add_column("box", justify="right")
    table.add_column("text", overflow="fold")
    table.add_column("confidence", justify="right")
    table.add_column("taken out")
    for number, box in enumerate(look.ocr.boxes, start=1):
        sure = f"{box.confidence:.1f}" if box.text else ""
        table.add_row(str(number), printable(box.text or "(no text)"), sure)
    table.add_section()
    for _, words in look.lines():
        for (confidence, reason), group in groupby(words, key=lambda each: (each[0].confidence, each[1])):
            if reason:
                text = printable(" ".join(word.text for word, _ in group))
                table.add_row("", text, f"{confidence:.1f}", printable(reason), style="yellow")
    out = console()
    out.print(table)
    out.print(f"{look.ocr.engine}, {look.seconds:.2f} s; drawn: {drawn}", soft_wrap=True, markup=False, highlight=False)


def printable(text: str) -> Text:
    """`text` as a terminal may show it: what would command the terminal is replaced."""
    from rich.text import Text

    return Text("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))
