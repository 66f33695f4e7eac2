"""Changes to a valid sample that damage, lies and hostility make."""

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

# Sizes and numbers that a length, a count or an index may state.
_SIZES: Final = tuple(
    number.to_bytes(width, order, signed=number < 0)
    for width in (1, 2, 4, 8)
    for order in ("little", "big")
    for number in (0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)), 2 ** (8 * width - 2))
)
# What a text may hold in place of a value, also much of it.
_TEXTS: Final = (
    b"null", b"true", b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"Infinity", b"1e-999", b"9" * 400, b"9" * 5000,
    b'""', b"[]", b"{}", b"[[]]", b"[" * 3000, b'{"a":' * 3000, b'"\\ud800"', b"\\u0000", b'"' + b"x" * 70_000 + b'"',
    b"\n", b"\r\n", b",", b";", b"\t", b'"', b"'", b"<", b">", b"</", b"<!--", b"<p>" * 1500, b"&#x110000;", b"&#0;",
    b"http://[", b"//[", b"//h:99999", b"javascript:", b"../", b"/etc/passwd", b"%00", b"%ff", b"~", b"__", b" " * 5000,
    b"1" * 40_000, b"\\" * 20_000, b"!!python/object:os.system", b"*a", b"&a", b"2026-13-45T99:99:99Z", b"9999999999",
    b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xe2\x80\xae",
    b"\0" * 4096,
)  # fmt: skip


def mutated(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy of bytes that are one of `samples`, changed in one to six places."""
    return st.sampled_from(samples).flatmap(
        lambda sample: st.lists(_change(samples), min_size=1, max_size=6).map(lambda changes: _changed(sample, changes))
    )


# Name, where (in parts of 2**32), a number, and what is put there.
_Change = tuple[str, int, int, bytes]


def _change(samples: Sequence[bytes]) -> st.SearchStrategy[_Change]:
    place = st.integers(0, 2**32 - 1)
    small = st.integers(1, 64)
    return st.one_of(
        st.tuples(st.just("flip"), place, st.integers(0, 7), st.just(b"")),
        st.tuples(st.just("write"), place, small, st.sampled_from(_SIZES)),
        st.tuples(st.just("write"), place, small, st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("insert"), place, small, st.sampled_from(_TEXTS)),
        st.tuples(st.just("token"), place, small, st.sampled_from(_TEXTS)),
        st.tuples(st.just("cut"), place, small, st.just(b"")),
        st.tuples(st.just("end"), place, small, st.just(b"")),
        st.tuples(st.just("repeat"), place, st.integers(1, 300), st.just(b"")),
        st.tuples(st.just("splice"), place, st.integers(0, 2**32 - 1), st.sampled_from(samples)),
    )


def _changed(sample: bytes, changes: Sequence[_Change]) -> bytes:
    data = bytearray(sample)
    for name, place, number, new in changes:
        at = place * (len(data) + 1) >> 32
        if name == "flip" and at < len(data):
            data[at] ^= 1 << number
        elif name == "write":
            data[at : at + len(new)] = new
        elif name == "insert":
            data[at:at] = new
        elif name == "token":
            data[at : _token_end(data, at)] = new
        elif name == "cut":
            del data[at : at + number]
        elif name == "end":
            del data[at:]
        elif name == "repeat":
            data[at:at] = data[at : at + 64] * number
        elif name == "splice":
            data[at:] = new[number * (len(new) + 1) >> 32 :]
    return bytes(data)


def _token_end(data: bytearray, at: int) -> int:
    """Return where the word, number or quoted text at `at` ends."""
    end = at
    while end < len(data) and end - at < 200 and data[end] not in b'",:;{}[]<>=\n\t ':
        end += 1
    return max(end, at + 1)
