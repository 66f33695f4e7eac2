"""Show and Tell on ONNX Runtime, from an ONNX export."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import Alphabet
from memeloom.train.onnx_session import OnnxNetwork
from memeloom.train.pictures.runtime import RuntimeEncoder
from memeloom.train.pictures.templates import TemplatePictures
from memeloom.train.runtime_folder import ENCODER, RuntimeParts
from memeloom.train.show_and_tell.decoding import CHARACTERS, PICTURES, WORDS, DecoderSteps, ShowAndTellWriter
from memeloom.train.show_and_tell.words import Words

_DECODER = "decoder.onnx"
NEEDS: Final = (_DECODER, ENCODER, WORDS, CHARACTERS, PICTURES)


def open_runtime(parts: RuntimeParts) -> ShowAndTellWriter:
    """Open a model for writing. Raises KeyError, TypeError or ValueError if a part is missing or wrong."""
    network = OnnxNetwork(parts.folder / _DECODER)

    def step(
        vectors: NDArray[np.float32], words: NDArray[np.int32], state: NDArray[np.float32]
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        logits, after = network(vectors, words[:, np.newaxis], state)
        return logits[:, 0], after

    vectors, settings = parts.content(PICTURES), parts.settings
    pictures = TemplatePictures(RuntimeEncoder(parts, vectors.shape[1]), parts.templates, vectors)
    words, alphabet = (
        Words(tuple(parts.content(WORDS)), settings["separator"]),
        Alphabet(tuple(parts.content(CHARACTERS))),
    )
    # The exported network projects a picture at every step, which costs little beside the words.
    steps = DecoderSteps(lambda seen: seen, step, network.input_shapes[2][-1] or 0)
    return ShowAndTellWriter(steps, pictures, words, alphabet, parts.templates)
