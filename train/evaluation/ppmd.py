"""PPMd as a baseline: the bits that a compressor of text, which learns by counting, needs for held-out captions.

PPMd (Shkarin, "PPM: one step to practicality", Data Compression Conference 2002; variant H, of 7-Zip) predicts each
byte from up to `ORDER` before it. It codes the training captions first, then those held out, and goes on learning while
it codes: before the last held-out caption it has learned from all others, with the default split a twentieth more text.

Twelve digits before each caption name its template (`train.characters.template_code`), so that the first bytes of a
caption, too, have a full context. A caption's code length is the number of bytes by which the output grows while the
caption is coded; what grows while the digits are coded is not counted. Whole bytes leave the coder, so each of these
lengths is off by up to a byte, at random: about 0.1 % of the sum over 9,000 captions.
"""

import math
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from memeloom.configs.extras import require
from memeloom.train.characters import template_code
from memeloom.train.corpus import Captions, read_captions
from memeloom.train.evaluation.held_out import HeldOut
from memeloom.train.evaluation.likelihood import ModelScores

NAME: Final = "ppmd-12"
ORDER: Final = 12
EXTRA: Final = "baseline"
# Bytes of memory for each byte of text, at least, and at most what PPMd can address. If its memory is full it forgets
# everything: for 10 MB of captions 192 MB are enough, and 128 MB are not.
_MEMORY, _LEAST, _MOST = 32, 2**28, 2**32 - 1 - 12 * 3
_BATCH = 1024
_NATS_IN_A_BYTE = 8 * math.log(2)


def check_ppmd() -> None:
    """Raise MissingExtra if the compressor is not installed."""
    require(EXTRA)


def score_ppmd(held: HeldOut, done: Callable[[int], None]) -> tuple[ModelScores, float]:
    """Return the scores of the held-out captions, and the seconds that the training captions took.

    `done` is called with numbers of captions that were scored. First choices are not known: `right` is None. Unknown
    characters are coded as all others.

    Raises:
        MemeloomError: the training captions cannot be read, or the dataset was replaced.
    """
    from pyppmd import Ppmd7Encoder

    codes = [template_code(template.id).encode() for template in held.templates]
    trained = read_captions(held.folder, held.manifest, "train", held.alphabet)
    held.check_unchanged()
    began = time.perf_counter()
    text = b"".join(code + caption for code, caption in _coded(trained, held, codes))
    encoder = Ppmd7Encoder(ORDER, min(max(_MEMORY * len(text), _LEAST), _MOST))
    encoder.encode(text)
    learned = time.perf_counter()
    grown = np.zeros(len(held.captions), np.int64)
    for at, (code, caption) in enumerate(_coded(held.captions, held, codes)):
        encoder.encode(code)
        grown[at] = len(encoder.encode(caption))
        if (at + 1) % _BATCH == 0:
            done(_BATCH)
    done(len(grown) % _BATCH)
    lengths = held.captions.lengths
    scores = ModelScores(
        np.asarray(grown * _NATS_IN_A_BYTE, np.float64),
        lengths,
        None,
        lengths,
        held.captions.templates,
        0,
        time.perf_counter() - learned,
    )
    return scores, learned - began


def _coded(captions: Captions, held: HeldOut, codes: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the code of each caption's template, and the caption."""
    for row, text in zip(captions.templates.tolist(), captions.texts(held.alphabet), strict=True):
        yield codes[row], text.encode()
