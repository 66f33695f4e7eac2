"""Read `tf.train.Example` with protobuf, and write it by hand five times as fast; without TensorFlow.

An Example maps names of features to lists of values. Ours are lists of bytes or of integers; a list of floats is read
as an empty feature:

    Example{1: Features{1: entry{1: name, 2: Feature{1: BytesList, 3: Int64List}}}}

Features are sorted by name, so equal features give equal bytes.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

# Longer parts are pictures, whose lengths rarely repeat.
_CACHED_LENGTHS = 4096


class NotAnExample(ValueError):
    """Bytes that are not a `tf.train.Example`, or one that lacks a feature of the schema."""


def parse_example(data: bytes) -> Any:
    """Return the map of features, from name to a message with `bytes_list.value` and `int64_list.value`.

    Accepts features in any order and unknown fields. A missing name gives an empty message.

    Raises:
        NotAnExample: the bytes are not a message.
    """
    message, decode_error = _example()
    try:
        return message.FromString(data).features.feature
    except decode_error as error:
        raise NotAnExample(f"not a tf.train.Example: {error}") from error


@cache
def _example() -> tuple[Any, type[Exception]]:
    """Return the message class and protobuf's error; built at first use (0.1 s)."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="memeloom", syntax="proto3")

    def add(parent: Any, name: str, *fields: tuple[int, str, int, str | int]) -> Any:
        """Add a message type with fields of a number, name, label and type: protobuf's number or another message."""
        message = parent.add(name=name)
        for number, field, label, kind in fields:
            made = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                made.type, made.type_name = types.TYPE_MESSAGE, f".memeloom.{kind}"
            else:
                made.type = kind
        return message

    one, many = types.LABEL_OPTIONAL, types.LABEL_REPEATED
    messages = file.message_type
    add(messages, "BytesList", (1, "value", many, types.TYPE_BYTES))
    add(messages, "Int64List", (1, "value", many, types.TYPE_INT64))
    add(messages, "Feature", (1, "bytes_list", one, "BytesList"), (3, "int64_list", one, "Int64List"))
    features = add(messages, "Features", (1, "feature", many, "Features.FeatureEntry"))
    entry = add(features.nested_type, "FeatureEntry", (1, "key", one, types.TYPE_STRING), (2, "value", one, "Feature"))
    entry.options.map_entry = True
    add(messages, "Example", (1, "features", one, "Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("memeloom.Example")), DecodeError


class Headers(dict[int, bytes]):
    """Precomputed headers of a part of an Example, by the part's length.

    All features in order of their names, each with its header, after an `EXAMPLE` header, are an Example.
    """

    def __init__(self, make: Callable[[int], bytes]) -> None:
        self._make = make

    def __missing__(self, length: int) -> bytes:
        """Compute and cache the header of a part of `length` bytes."""
        header = self._make(length)
        if 0 <= length < _CACHED_LENGTHS:
            self[length] = header
        return header


def list_headers(name: str) -> Headers:
    """Return the headers of a feature with a list of bytes; each value follows its `VALUE` header."""
    return _feature_headers(name, b"\x0a")


def integer_features(name: str) -> Headers:
    """Return features of a single integer of 64 bits, by that integer."""
    lists = _feature_headers(name, b"\x1a")

    def feature(value: int) -> bytes:
        packed = signed_varint(value)
        return lists[len(VALUE[len(packed)]) + len(packed)] + VALUE[len(packed)] + packed

    return Headers(feature)


def _feature_headers(name: str, kind: bytes) -> Headers:
    """Return the headers of a feature with a list whose field in `Feature` has the tag `kind`."""
    key = name.encode()
    named = b"\x0a%b%b\x12" % (varint(len(key)), key)

    def header(length: int) -> bytes:
        values = kind + varint(length)
        entry = named + varint(len(values) + length) + values
        return b"\x0a" + varint(len(entry) + length) + entry

    return Headers(header)


def value_headers(name: str) -> Headers:
    """Return the headers of the single value of a feature."""
    lists = list_headers(name)
    return Headers(lambda length: lists[len(VALUE[length]) + length] + VALUE[length])


def varint(value: int) -> bytes:
    """Return a non-negative integer as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed_varint(value: int) -> bytes:
    """Return an integer of 64 bits as protobuf writes it: negative ones as two's complement."""
    return varint(value & _UINT64)


_UINT64 = 2**64 - 1
# Before a value in a list of bytes, and before the features of an Example: field 1, delimited.
VALUE = Headers(lambda length: b"\x0a" + varint(length))
EXAMPLE = VALUE
