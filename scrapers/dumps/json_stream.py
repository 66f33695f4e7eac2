"""Stream the records of a dump in bounded memory: JSON lines, an array, or a sequence of objects.

After a malformed record, reading continues at the next line, or in an array at the next object.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from memeloom.scrapers.dumps.files import Damage

# Twice as many bytes of empty lists take 90 MB as Python objects, and exceed MongoDB's 16 MB document limit.
MAX_RECORD = 2 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_NEXT_OBJECT = re.compile(r",[ \t\r\n]*(?=\{)")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class DumpEntry(NamedTuple):
    """A JSON value, its position (``line`` or ``byte``, from 1), and its length in bytes."""

    value: object
    unit: str
    number: int
    size: int


class Problem(NamedTuple):
    """A value that could not be read: its position, the reason as a short fixed phrase, and details."""

    reason: str
    unit: str
    number: int
    detail: str = ""

    def __str__(self) -> str:
        """Format the problem: ``line 12: not JSON``."""
        return f"{self.unit} {self.number}: {self.reason}{f' ({self.detail})' if self.detail else ''}"


def read_entries(chunks: Iterator[bytes]) -> Iterator[DumpEntry | Problem]:
    """Yield the values and the problems of a JSON or JSONL file, in file order."""
    head = b""
    try:
        while len(head.lstrip()) < 4096 and (chunk := next(chunks, b"")):
            head += chunk
            if len(head) > MAX_RECORD:
                break
    except Damage as damage:
        chunks = _damaged(damage)
    head = head.removeprefix(_BOM)
    begin = head.lstrip()
    if begin.startswith(b"["):
        yield from _Window(head, chunks).array()
    elif _is_pretty(begin):
        yield from _Window(head, chunks).sequence()
    else:
        yield from _read_lines(head, chunks)


def _is_pretty(text: bytes) -> bool:
    """Return whether an object begins here that spans several lines."""
    first, newline, following = text.partition(b"\n")
    if not newline or following.startswith(b"{"):
        return False
    try:
        _DECODER.decode(first.decode(errors="replace").rstrip())
    except json.JSONDecodeError as error:
        return _is_cut(error)
    except (ValueError, RecursionError):
        return False
    return False


def _damaged(damage: Damage) -> Iterator[bytes]:
    raise damage
    yield b""


def _read_lines(head: bytes, chunks: Iterator[bytes]) -> Iterator[DumpEntry | Problem]:
    number, rest, skipping = 0, b"", False
    chunk: bytes | None = head
    try:
        while chunk is not None:
            rows = (rest + chunk).split(b"\n")
            rest = rows.pop()
            for row in rows:
                number += 1
                if not skipping and row and not row.isspace():
                    yield _parse_line(row, number)
                skipping = False
            if not skipping and len(rest) > MAX_RECORD:
                yield Problem("too large", "line", number + 1)
                skipping = True
            if skipping:
                rest = b""
            chunk = next(chunks, None)
    except Damage as damage:
        yield Problem(str(damage), "line", number + 1)
        return
    if rest and not rest.isspace():
        yield _parse_line(rest, number + 1, last=True)


def _parse_line(row: bytes, number: int, *, last: bool = False) -> DumpEntry | Problem:
    if len(row) > MAX_RECORD:
        return Problem("too large", "line", number)
    text = ""
    try:
        text = row.decode()
        value = _DECODER.decode(text)
    except UnicodeDecodeError:
        return Problem("not UTF-8", "line", number)
    except json.JSONDecodeError as error:
        cut = last and _is_cut(error)
        return Problem("cut off" if cut else "not JSON", "line", number, "" if cut else error.msg)
    except (ValueError, RecursionError) as error:
        reason, detail = _reason(error)
        return Problem(reason, "line", number, detail)
    if _SURROGATE.search(text) and not _is_unicode(value):
        return Problem("not Unicode", "line", number, "half of a surrogate pair")
    return DumpEntry(value, "line", number, len(row))


class _Window:
    """A window of decoded text over a byte stream, large enough for the current record."""

    def __init__(self, head: bytes, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._damage: str | None = None
        self._ended = False
        self._closed = False
        # Bytes that are not UTF-8 become lone surrogates, so that the surrounding JSON can be read.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = self._decoder.decode(head)
        self._at = 0
        self._marked = 0
        self._bytes = 0

    def array(self) -> Iterator[DumpEntry | Problem]:
        self._next_character()
        self._at += 1
        while (character := self._next_character()) != "]":
            if not character:
                yield Problem(self._damage or "cut off", "byte", self._position())
                return
            entry, intact = self._value()
            yield entry
            character = self._next_character() if intact else ""
            if character == ",":
                self._at += 1
            elif character not in ("]", ""):
                yield Problem("not JSON", "byte", self._position(), "expected a comma between records")
                intact = False
            if not intact and not self._skip_to_next_object():
                if not self._closed and not (isinstance(entry, Problem) and entry.reason == "cut off"):
                    yield Problem(self._damage or "cut off", "byte", self._position())
                return
        self._at += 1
        yield from self._ending("text after the end of the array")

    def sequence(self) -> Iterator[DumpEntry | Problem]:
        """Yield consecutive values, each on any number of lines."""
        intact = True
        while intact and self._next_character():
            entry, intact = self._value()
            yield entry
        if intact:
            yield from self._ending("")

    def _ending(self, expected: str) -> Iterator[Problem]:
        if self._next_character():
            yield Problem("not JSON", "byte", self._position(), expected)
        elif self._damage:
            yield Problem(self._damage, "byte", self._position())

    def _value(self) -> tuple[DumpEntry | Problem, bool]:
        """Read the value at the cursor and advance. Returns it, and whether its end was found."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not _is_unfinished(error, len(self._text)):
                    return self._broken("not JSON", error.msg)
                if len(self._text) - self._at > MAX_RECORD:
                    return self._broken("too large")
                if not self._fill():
                    return self._broken("cut off" if _is_cut(error) else "not JSON")
            except (ValueError, RecursionError) as error:
                return self._broken(*_reason(error))
            else:
                # A number at the end of the window may continue.
                if end < len(self._text) or not self._fill():
                    return self._checked(value, end), True

    def _checked(self, value: object, end: int) -> DumpEntry | Problem:
        position, size, text = self._position(), end - self._at, self._text[self._at : end]
        self._at = end
        if size > MAX_RECORD:
            return Problem("too large", "byte", position)
        if not text.isascii() and not _is_unicode(text):
            return Problem("not UTF-8", "byte", position)
        if _SURROGATE.search(text) and not _is_unicode(value):
            return Problem("not Unicode", "byte", position, "half of a surrogate pair")
        return DumpEntry(value, "byte", position, size)

    def _broken(self, reason: str, detail: str = "") -> tuple[Problem, bool]:
        problem = Problem(reason, "byte", self._position(), detail)
        self._at += 1
        return problem, False

    def _next_character(self) -> str:
        """Skip white space. Returns the next character, or ``""`` at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def _skip_to_next_object(self) -> bool:
        """Advance to the likely start of the next object. Returns False if there is none."""
        while not (found := _NEXT_OBJECT.search(self._text, self._at)):
            self._closed = self._text.rstrip().endswith("]")
            self._at = max(self._at, len(self._text) - 256)
            if not self._fill():
                return False
        self._at = found.end()
        return True

    def _fill(self) -> bool:
        """Discard the text before the cursor and read a chunk. Returns False at the end."""
        if self._ended:
            return False
        try:
            chunk = next(self._chunks, None)
        except Damage as damage:
            self._damage, chunk = str(damage), None
        self._ended = chunk is None
        self._position()
        more = self._decoder.decode(chunk or b"", final=self._ended)
        self._text = self._text[self._at :] + more
        self._at = self._marked = 0
        return bool(more) or not self._ended

    def _position(self) -> int:
        self._bytes += len(self._text[self._marked : self._at].encode(errors="surrogateescape"))
        self._marked = self._at
        return self._bytes + 1


def _is_cut(error: json.JSONDecodeError) -> bool:
    return error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")


def _is_unfinished(error: json.JSONDecodeError, end: int) -> bool:
    """Return whether more text may fix the error: it is near the end, where a literal or escape may be cut."""
    return error.pos >= end - len("\\ud83d\\ude0") or error.msg.startswith("Unterminated string")


def _is_unicode(value: object) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(error: ValueError | RecursionError) -> tuple[str, str]:
    """Return the reason and the details of a problem."""
    if isinstance(error, RecursionError):
        return "nested too deeply", ""
    return "not JSON", "a number without end" if "digits" in str(error) else str(error)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
