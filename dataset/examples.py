"""`tf.train.Example` in protobuf's wire format, coded and decoded without TensorFlow.

An Example is a map from a feature's name to a list of bytes, of floats (32 bit) or of integers (64 bit):

    Example{1: Features{1: entry{1: name, 2: Feature{1: BytesList | 2: FloatList | 3: Int64List}}}}

Features are written in order of their names and numbers are packed, as TensorFlow's own deterministic
serialisation does, so equal features are equal bytes.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Values: TypeAlias = Sequence[bytes] | Sequence[float] | Sequence[int]
Features: TypeAlias = Mapping[str, Values]

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3
_TEN_BITS_TOO_MANY = 70


class NotAnExample(ValueError):
    """Bytes that are no `tf.train.Example`."""


def encode_example(features: Features) -> bytes:
    """The bytes of an Example with these features.

    Each list holds bytes, floats or integers, one kind only; an empty list is a feature without values.

    Raises:
        TypeError: values of another kind, or of several.
        OverflowError: an integer beyond 64 bits, or a float beyond 32.
    """
    body = bytearray()
    for name in sorted(features):
        key, value = name.encode(), _encode_feature(features[name])
        entry = b"\x0a%b%b\x12%b%b" % (_varint(len(key)), key, _varint(len(value)), value)
        body += b"\x0a%b%b" % (_varint(len(entry)), entry)
    return b"\x0a%b%b" % (_varint(len(body)), bytes(body))


def decode_example(data: bytes) -> dict[str, Values]:
    """The features of an Example: a tuple of bytes, floats or integers by name.

    Reads what any protobuf writer may write: features in any order, numbers packed or not, unknown fields.

    Raises:
        NotAnExample: not one.
    """
    features: dict[str, Values] = {}
    try:
        for entry in _messages(data, (1, 1)):
            name, values = "", ()  # type: tuple[str, Values]
            for field, _, value in _fields(entry):
                if field == 1 and isinstance(value, bytes):
                    name = value.decode()
                elif field == 2 and isinstance(value, bytes):
                    values = _decode_feature(value)
            features[name] = values
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise NotAnExample(f"not a tf.train.Example: {error}") from error
    return features


class Heads(dict[int, bytes]):
    """What stands before a part of an Example, by the part's length in bytes; worked out once.

    For who writes many Examples with the same features: the heads and parts of all features in order of their
    names, joined, behind `EXAMPLE` are what `encode_example` makes of them.
    """

    def __init__(self, make: Callable[[int], bytes]) -> None:
        self._make = make

    def __missing__(self, length: int) -> bytes:
        """The head of a part that long."""
        head = self._make(length)
        if length < _REMEMBERED:
            self[length] = head
        return head


class Lengths(dict[int, int]):
    """The other way round: how long a part is, by its length together with its head; -1 if no part has that."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads

    def __missing__(self, whole: int) -> int:
        """The length of such a part."""
        longest = len(self._heads[whole])
        fitting = (at for at in range(max(whole - longest, 0), whole) if len(self._heads[at]) + at == whole)
        length = next(fitting, -1)
        if whole < _REMEMBERED:
            self[whole] = length
        return length


def list_heads(name: str) -> Heads:
    """Before a feature's list of bytes: each value behind its `VALUE`, all joined."""
    key = name.encode()
    named = b"\x0a%b%b\x12" % (_varint(len(key)), key)

    def head(length: int) -> bytes:
        values = b"\x0a" + _varint(length)
        entry = named + _varint(len(values) + length) + values
        return b"\x0a" + _varint(len(entry) + length) + entry

    return Heads(head)


def one_heads(name: str) -> Heads:
    """Before the one value of a feature of bytes."""
    lists = list_heads(name)
    return Heads(lambda length: lists[len(VALUE[length]) + length] + VALUE[length])


def _encode_feature(values: Sequence[Any]) -> bytes:
    if not values:
        return b""
    kind = type(values[0])
    if any(type(value) is not kind for value in values[1:]):
        raise TypeError("a feature holds values of one kind only")
    if kind is bytes:
        number, body = _BYTES, b"".join([b"\x0a%b%b" % (_varint(len(value)), value) for value in values])
    elif kind is float:
        number, body = _FLOATS, _packed(struct.pack(f"<{len(values)}f", *values))
    elif kind is int:
        number, body = _INTEGERS, _packed(b"".join([_integer(value) for value in values]))
    else:
        raise TypeError(f"a feature holds bytes, floats or integers, not {kind.__name__}")
    return b"%c%b%b" % (number << 3 | _DELIMITED, _varint(len(body)), body)


def _packed(numbers: bytes) -> bytes:
    return b"\x0a%b%b" % (_varint(len(numbers)), numbers)


def _integer(value: int) -> bytes:
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} does not fit 64 bits")
    return _varint(value & 0xFFFFFFFFFFFFFFFF)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes([value]) for value in range(0x80)]
# Longer parts, pictures, hardly ever have the same length.
_REMEMBERED = 4096
# Before a value in a list of bytes, and before the entries of all features of an Example.
VALUE = Heads(lambda length: b"\x0a" + _varint(length))
EXAMPLE = VALUE


def _decode_feature(data: bytes) -> Values:
    values: Values = ()
    for kind, _, body in _fields(data):
        if not isinstance(body, bytes):
            continue
        if kind == _BYTES:
            values = tuple(value for field, _, value in _fields(body) if field == 1 and isinstance(value, bytes))
        elif kind == _FLOATS:
            values = tuple(
                number for field, wire, value in _fields(body) if field == 1 for number in _floats(wire, value)
            )
        elif kind == _INTEGERS:
            values = tuple(
                number for field, wire, value in _fields(body) if field == 1 for number in _integers(wire, value)
            )
    return values


def _floats(wire: int, value: bytes | int) -> Iterator[float]:
    """The one float, or the packed list of them."""
    if isinstance(value, int):
        if wire != _FIXED32:
            raise NotAnExample(f"not a tf.train.Example: a float of wire type {wire}")
        value = value.to_bytes(4, "little")
    return (number for (number,) in struct.iter_unpack("<f", value))


def _integers(wire: int, value: bytes | int) -> Iterator[int]:
    """The one integer, or the packed list of them."""
    if isinstance(value, int):
        if wire != _VARINT:
            raise NotAnExample(f"not a tf.train.Example: an integer of wire type {wire}")
        yield _signed(value)
        return
    at = 0
    while at < len(value):
        number, at = read_varint(value, at)
        yield _signed(number)


def _signed(value: int) -> int:
    value &= 0xFFFFFFFFFFFFFFFF
    return value - 2**64 if value >= 2**63 else value


def _messages(data: bytes, path: tuple[int, ...]) -> Iterator[bytes]:
    """The messages that lie inside `data` under the field numbers of `path`, one inside the other."""
    for field, _, value in _fields(data):
        if field == path[0] and isinstance(value, bytes):
            if len(path) == 1:
                yield value
            else:
                yield from _messages(value, path[1:])


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """Field number, wire type and value of each field of a message."""
    at, end = 0, len(data)
    while at < end:
        tag, at = read_varint(data, at)
        wire = tag & 7
        value: bytes | int
        if wire == _DELIMITED:
            length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
        elif wire == _VARINT:
            value, at = read_varint(data, at)
        elif wire in (_FIXED32, _FIXED64):
            width = 4 if wire == _FIXED32 else 8
            value, at = int.from_bytes(data[at : at + width], "little"), at + width
        else:
            raise NotAnExample(f"not a tf.train.Example: wire type {wire}")
        if at > end:
            raise NotAnExample("not a tf.train.Example: cut off")
        yield tag >> 3, wire, value


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends.

    Raises:
        IndexError: cut off.
        NotAnExample: more than 64 bits.
    """
    value = data[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= _TEN_BITS_TOO_MANY:
            raise NotAnExample("not a tf.train.Example: a number that does not end")
