"""JPEGs of 50-500 KB, 119 KB on average: real memes from a data folder, or drawn ones."""

from pathlib import Path

import cv2
import numpy as np

_SMALLEST, _LARGEST, _MEAN = 50_000, 500_000, 119_000
_COUNT, _DRAWN = 500, 150


def picture_folder(data: Path | None, folder: Path) -> str:
    """Fill `folder` with JPEGs and return a description of them."""
    found = sorted(data.glob("real_memes/*/*.jpg")) if data else []
    sizes = {path: path.stat().st_size for path in found}
    fit = [path for path in found if _SMALLEST <= sizes[path] <= _LARGEST]
    if not fit:
        pictures, what = [drawn(number) for number in range(_DRAWN)], "drawn JPEGs"
    else:
        pictures, what = [path.read_bytes() for path in _mixed(fit, sizes)], "real memes"
    for number, picture in enumerate(pictures):
        (folder / f"{number:04}.jpg").write_bytes(picture)
    lengths = [len(picture) for picture in pictures]
    return f"{what}, {min(lengths) // 1000}-{max(lengths) // 1000} KB, mean {sum(lengths) / len(lengths) / 1000:.0f} KB"


def drawn(number: int) -> bytes:
    """Draw a picture with flat areas, gradients and noise, like a photo; equal numbers give equal bytes."""
    random = np.random.default_rng(number)
    # Log-normal, like real sizes: most near 90 KB, a few large.
    bytes_wanted = float(np.clip(random.lognormal(np.log(1.0e5), 0.5), 55_000, 480_000))
    height = int(np.clip(np.sqrt(bytes_wanted) * 2, 400, 1400))
    width = int(height * random.uniform(0.75, 1.25))
    coarse = random.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.float32)
    for _ in range(8):
        corner, size = random.integers(0, (width, height)), random.integers(20, 200, 2)
        colour = random.integers(0, 256, 3).tolist()
        cv2.rectangle(smooth, corner.tolist(), (corner + size).tolist(), colour, cv2.FILLED)
    grain = random.normal(0, 1, (height, width, 1)).astype(np.float32)
    low, high = 0.0, 64.0
    data = b""
    for _ in range(7):
        strength = (low + high) / 2
        pixels = np.clip(smooth + strength * grain, 0, 255).astype(np.uint8)
        data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
        low, high = (strength, high) if len(data) < bytes_wanted else (low, strength)
    return data


def _mixed(fit: list[Path], sizes: dict[Path, int]) -> list[Path]:
    """Choose `_COUNT` real pictures, large ones more often, so that the mean size is right."""
    ordered = sorted(fit, key=lambda path: (sizes[path], path))
    small, large = ordered[: -len(ordered) // 4], ordered[-len(ordered) // 4 :]
    taken: list[Path] = []
    total = 0
    for number in range(_COUNT):
        part = large if total < _MEAN * len(taken) else small
        path = part[number * 7919 % len(part)]
        taken.append(path)
        total += sizes[path]
    return taken
