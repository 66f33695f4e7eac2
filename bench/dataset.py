"""Measure the dataset builder: `python -m bench.dataset --data DATA`.

Parts: `filters` (speed and errors of the language and profanity filters against a naive loop), `build` (rate and memory
of whole builds of the real captions, and of 10 and 40 times as many), `copies` (recall of planted duplicates of
captions and pictures), `leaks` (near copies in two splits), `pictures` (size of datasets that store the pictures of
templates once) and, only if named, `cluster` (a build on two nodes of Ray against S3, killed twice) and `engines` (two
steps beside DuckDB, Daft and Ray Data). `bench.dataset_io` measures reading and writing.
"""

import argparse
from pathlib import Path

from bench.dataset_build import build_rows
from bench.dataset_cluster import cluster_rows
from bench.dataset_copies import copy_rows
from bench.dataset_engines import engine_rows
from bench.dataset_filters import filter_rows
from bench.dataset_leaks import leak_rows
from bench.dataset_pictures import picture_rows
from bench.rows import print_parts

_PARTS = ("filters", "build", "copies", "leaks", "pictures", "cluster", "engines")
_ENGINES_SCALE = 10


def main() -> None:
    """Measure each part and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds captions and templates/")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS[:-2])
    parser.add_argument(
        "--scales",
        nargs="+",
        type=int,
        default=[1, 10, 40],
        help="times the data, for `build`; the last one for `cluster`, and for `engines`, which takes at most 10",
    )
    parser.add_argument("--naive", type=int, default=800, help="captions for the naive loop, for `filters`")
    parser.add_argument("--plot", type=Path, help="an SVG of time and memory, for `build`")
    options = parser.parse_args()
    measure = {
        "filters": lambda: filter_rows(options.data, options.naive),
        "build": lambda: build_rows(options.data, options.scales, options.plot),
        "copies": lambda: copy_rows(options.data),
        "leaks": lambda: leak_rows(options.data),
        "cluster": lambda: cluster_rows(options.data, options.scales[-1]),
        "engines": lambda: engine_rows(options.data, min(options.scales[-1], _ENGINES_SCALE)),
        "pictures": lambda: picture_rows(options.data),
    }
    print_parts("the dataset builder", options.only, lambda part: measure[part]())


if __name__ == "__main__":
    main()
