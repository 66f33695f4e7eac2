"""Where the browsers of a test are, and whether any is left."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memeloom.scrapers.browsers import keeper


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path is short, as the sockets in it ask for; gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def browsers_in(folder: Path) -> list[int]:
    """Every process that was started with a profile in `folder`, or drives one; the oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if f"{folder}/{keeper.PREFIX}".encode() in said:
                    found.append(int(entry.name))
    return sorted(found)


def named(name: str, folder: Path) -> list[int]:
    """Processes of a program among `browsers_in`."""
    return [number for number in browsers_in(folder) if _name(number).startswith(name)]


def _name(number: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{number}/comm").read_text().strip()
    return ""
