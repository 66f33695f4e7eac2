"""Hashes by the package imagehash, in the peers' environment.

`python -m bench.templates_peer HOW FOLDER` reads names of pictures in FOLDER from standard input; it prints the 64-bit
hash of each in hex, and its processor seconds.
"""

import io
import sys
import time
from pathlib import Path

import imagehash  # type: ignore[import-not-found]
from PIL import Image


def main() -> None:
    """Hash the pictures and print."""
    how, folder = getattr(imagehash, sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        data = (folder / line.strip()).read_bytes()
        start = time.process_time()
        made = how(Image.open(io.BytesIO(data)))
        print(made, time.process_time() - start)


if __name__ == "__main__":
    main()
