"""Hashes by the package imagehash, in the environment of the benches' peers.

`python -m bench.templates_peer HOW FOLDER` reads the names of picture files in FOLDER from its input and prints, of
each, its hash of 64 bits in hex and the seconds of processor time from the bytes to it.
"""

import io
import sys
import time
from pathlib import Path

import imagehash  # type: ignore[import-not-found]
from PIL import Image


def main() -> None:
    """Hash and print."""
    how, folder = getattr(imagehash, sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        data = (folder / line.strip()).read_bytes()
        start = time.process_time()
        made = how(Image.open(io.BytesIO(data)))
        print(made, time.process_time() - start)


if __name__ == "__main__":
    main()
