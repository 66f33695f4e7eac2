"""The protobuf coder: random features survive the round trip, and nonsense is refused."""

import contextlib
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from memeloom.dataset.examples import NotAnExample, Values, decode_example, encode_example
from memeloom.dataset.schema import FEATURES, DatasetRecord, decode_record, encode_record


def random_features(seed: int) -> dict[str, Values]:
    """Any mixture of kinds, names and lengths; floats are such that 32 bits hold them."""
    rng = random.Random(seed)
    kinds: list[Callable[[], bytes | float | int]] = [
        lambda: rng.randbytes(rng.choice([0, 1, 5, 127, 128, 300, 20_000])),
        lambda: float(struct.unpack("<f", struct.pack("<f", rng.uniform(-1e6, 1e6)))[0]),
        lambda: rng.choice([0, 1, -1, 127, 128, 2**31, 2**63 - 1, -(2**63), rng.getrandbits(40)]),
    ]
    features: dict[str, Values] = {}
    for _ in range(rng.randrange(12)):
        name = "".join(rng.choice("abcxyzé✓_0") for _ in range(rng.randrange(1, 40)))
        draw = rng.choice(kinds)
        features[name] = tuple(draw() for _ in range(rng.randrange(5)))  # type: ignore[assignment]
    return features


@pytest.mark.parametrize("seed", range(200))
def test_random_features_survive_the_round_trip(seed: int) -> None:
    features = random_features(seed)
    assert decode_example(encode_example(features)) == features


def test_the_order_of_the_features_does_not_matter() -> None:
    features = random_features(11)
    assert len(features) > 3
    assert encode_example(features) == encode_example(dict(reversed(features.items())))


def test_numbers_that_are_not_packed_and_unknown_fields_are_read() -> None:
    integers = b"\x08\x05\x08\xff\x01"  # two varints, each with its own tag
    floats = b"\x0d" + struct.pack("<f", 1.5)
    entries = b""
    for name, kind, body in ((b"i", 3, integers), (b"f", 2, floats)):
        feature = bytes([kind << 3 | 2, len(body)]) + body + b"\x78\x01"  # and field 15, a varint nobody knows
        entry = b"\x0a\x01" + name + b"\x12" + bytes([len(feature)]) + feature
        entries += b"\x0a" + bytes([len(entry)]) + entry
    assert decode_example(b"\x0a" + bytes([len(entries)]) + entries) == {"i": (5, 255), "f": (1.5,)}


@pytest.mark.parametrize(
    ("value", "error"),
    [((b"a", 1), TypeError), (("text",), TypeError), ((2**63,), OverflowError), ((1e300,), OverflowError)],
)
def test_values_that_no_feature_holds_are_refused(value: Values, error: type[Exception]) -> None:
    with pytest.raises(error):
        encode_example({"name": value})


def test_a_cut_example_never_passes_for_a_whole_one() -> None:
    data = encode_example({"a": (b"some bytes",), "b": (1, 2, 3), "c": (1.0,)})
    for length in range(1, len(data)):
        with pytest.raises(NotAnExample):
            decode_example(data[:length])


@pytest.mark.parametrize("seed", range(50))
def test_noise_is_refused_or_read_but_never_breaks(seed: int) -> None:
    with contextlib.suppress(NotAnExample):
        assert isinstance(decode_example(random.Random(seed).randbytes(200)), dict)


def record(image: bytes | None = None) -> DatasetRecord:
    boxes = ("", "größe ✓ | ok")
    return DatasetRecord(
        "imgflip:1", "61579", "One Does Not Simply", "imgflip", "train", "|x|", boxes, "ab" * 32, image
    )


@pytest.mark.parametrize("image", [None, b"\xff\xd8 bytes"])
def test_a_record_survives_the_round_trip(image: bytes | None) -> None:
    assert decode_record(encode_record(record(image))) == record(image)


def drawn(seed: int) -> DatasetRecord:
    """Values of any length, around those at which lengths take another byte."""
    rng = random.Random(seed)

    def text(*lengths: int) -> str:
        return "é" * (rng.choice(lengths) // 2) + "x" * rng.choice([0, 1, 2, 3])

    lengths = (0, 1, 50, 100, 118, 120, 122, 124, 126, 128, 130, 4090, 4096, 16_370, 16_384)
    facts: dict[str, Any] = {name: text(*lengths) for name in DatasetRecord._fields}
    facts["boxes"] = tuple(text(*lengths) for _ in range(rng.randrange(5)))
    facts["image"] = rng.choice([None, b"", rng.randbytes(rng.choice([1, 100, 4096, 20_000, 2_100_000]))])
    return DatasetRecord(**facts)


@pytest.mark.parametrize("seed", range(150))
def test_the_fast_way_is_the_same_as_the_general_one(seed: int) -> None:
    made = drawn(seed)
    facts = made._asdict()
    ones = [name for name, values, _ in FEATURES if values == "one" and name != "image"]
    features: dict[str, Values] = {name: (facts[name].encode(),) for name in ones}
    features["boxes"] = tuple(box.encode() for box in made.boxes)
    if made.image is not None:
        features["image"] = (made.image,)
    data = encode_record(made)
    assert data == encode_example(features)
    assert decode_record(data) == made
    assert decode_example(data) == features


def test_a_record_of_another_writer_is_read_too() -> None:
    made = record(b"image")
    features = decode_example(encode_record(made))
    entries = [encode_example({name: features[name]}) for name in sorted(features, reverse=True)]
    assert decode_record(b"".join(entries)) == made, "entries in another order, each in a message of its own"
    more: dict[str, Values] = {**features, "added_later": (1, 2)}
    assert decode_record(encode_example(more)) == made


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_or_altered_record_is_refused_or_another_but_never_breaks(seed: int) -> None:
    data = encode_record(record(b"image"))
    rng = random.Random(seed)
    for length in range(len(data)):
        with pytest.raises(NotAnExample):
            decode_record(data[:length])
    at = rng.randrange(len(data))
    with contextlib.suppress(NotAnExample):
        assert isinstance(decode_record(data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]), DatasetRecord)


def test_a_record_has_exactly_the_features_of_the_schema() -> None:
    assert set(decode_example(encode_record(record(b"image")))) == {name for name, _, _ in FEATURES}


def test_an_example_that_is_no_record_is_refused() -> None:
    with pytest.raises(NotAnExample, match="not a record of a dataset"):
        decode_record(encode_example({"id": (b"imgflip:1",)}))
