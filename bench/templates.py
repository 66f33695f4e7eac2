"""How well templates are recognised, discovered and recovered: `python -m bench.templates --data DATA`.

DATA is a folder with templates, their captions and real memes. Templates are split in half by the hash of their name:
one half to choose settings on, the other to report. Parts: `recognition` (memes drawn, then cropped, framed, mirrored,
scaled and recompressed, against 10,000 templates; beside perceptual hashes), `real` (real memes, how many match),
`discovery` (memes on templates that nobody named) and `pictures` (the picture without its words).
Speeds are images a second of one processor's time.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row, print_parts
from bench.templates_discover import discover
from bench.templates_picture import pictures
from bench.templates_real import real_memes
from bench.templates_recognise import recognise

_PARTS = ("recognition", "real", "discovery", "pictures")
_MEMES, _INDEX, _DISCOVERED, _RECOVERED = 2000, 10_000, 5000, 12


def main() -> None:
    """Measure part by part, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds templates/ and real_memes/")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--share", type=float, default=1.0, help="of the work: less is quick, and proves little")
    options = parser.parse_args()
    print_parts("templates, reporting half", options.only, lambda part: _rows(part, options.data, options.share))


def _rows(part: str, data: Path, share: float) -> Iterator[Row]:
    match part:
        case "recognition":
            yield from recognise(data, round(_MEMES * share), round(_INDEX * share))
        case "real":
            yield from real_memes(data)
        case "discovery":
            yield from discover(data, round(_DISCOVERED * share))
        case _:
            yield from pictures(data, round(_RECOVERED * share))


if __name__ == "__main__":
    main()
