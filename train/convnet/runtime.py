"""The article's network on ONNX Runtime, from an ONNX export."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import Alphabet
from memeloom.train.convnet.decoding import LEAST, VOCABULARY, ConvnetWriter
from memeloom.train.onnx_session import OnnxNetwork
from memeloom.train.runtime_folder import RuntimeParts

_NETWORK = "convnet.onnx"
NEEDS: Final = (_NETWORK, VOCABULARY)


def open_runtime(parts: RuntimeParts) -> ConvnetWriter:
    """Open a model for writing. Raises KeyError, TypeError or ValueError if a part is missing or wrong."""
    network = OnnxNetwork(parts.folder / _NETWORK)

    def following(inputs: NDArray[np.int32]) -> NDArray[np.float32]:
        (probabilities,) = network(inputs)
        logs: NDArray[np.float32] = np.log(np.maximum(probabilities, np.float32(LEAST)))
        return logs

    alphabet = Alphabet(tuple(parts.content(VOCABULARY)))
    return ConvnetWriter(
        following, network.input_shapes[0][1] or 0, alphabet, parts.templates, parts.settings["separator"]
    )
