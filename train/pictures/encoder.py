"""InceptionV3 without its top, average-pooled: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.reader import resize_square
from memeloom.train.backend import ACCELERATED, compiled, keras
from memeloom.train.checks import check_encoder_weights

# Version of the preprocessing; a new one invalidates cached vectors.
_VERSION = 1
# Batch size; smaller batches are padded, to compile once.
AT_ONCE = 16


class Encoder:
    """Encodes pictures with a frozen Keras network: RGB pixels 0 to 255, (n, side, side, 3), to float32 (n, size)."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.side = int(network.input_shape[1])
        self.size = int(network.output_shape[-1])
        self._encode = compiled(
            lambda pixels: network(pixels, training=False), variables=network.variables, xla=ACCELERATED
        )

    @cached_property
    def identity(self) -> str:
        """A digest of weights and picture size; equal encoders have equal digests."""
        digest = hashlib.sha256(f"{_VERSION} {self.side} {self.size}".encode())
        for weight in self.network.get_weights():
            digest.update(weight.tobytes())
        return digest.hexdigest()[:32]

    def vectors(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return the vectors, (pictures, size), of RGB pictures (height, width, 3), resized to squares."""
        found = np.zeros((len(pictures), self.size), np.float32)
        pixels = np.zeros((AT_ONCE, self.side, self.side, 3), np.uint8)
        for first in range(0, len(pictures), AT_ONCE):
            part = pictures[first : first + AT_ONCE]
            for row, picture in enumerate(part):
                pixels[row] = resize_square(picture, self.side)
            found[first : first + len(part)] = np.asarray(self._encode(pixels), np.float32)[: len(part)]
        return found


def open_encoder(weights: str, side: int, seed: int) -> Encoder:
    """Return an encoder to 2048 numbers.

    weights: ``imagenet`` (Keras downloads them once, 84 MB), a Keras weights file of InceptionV3 without its top, or
        ``none``: random weights from `seed`, which distinguish pictures, but not their content.
    side: input size in pixels, at least 75; ImageNet's weights were trained on 299.

    Raises:
        MemeloomError: the weights cannot be downloaded or read.
    """
    policy = keras.config.dtype_policy()
    # Cached vectors must not depend on the training precision.
    keras.config.set_dtype_policy("float32")
    try:
        return Encoder(_network(weights, side, seed))
    finally:
        keras.config.set_dtype_policy(policy)


def _network(weights: str, side: int, seed: int) -> Any:
    pixels = keras.Input((side, side, 3), dtype="uint8", name="pixels")
    inception = _with_weights(weights, side, seed)
    scaled = keras.layers.Rescaling(1 / 127.5, offset=-1)(pixels)
    network = keras.Model(pixels, inception(scaled), name="encoder")
    network.trainable = False
    return network


def _with_weights(weights: str, side: int, seed: int) -> Any:
    def build(named: str | None) -> Any:
        return keras.applications.InceptionV3(
            include_top=False, weights=named, input_shape=(side, side, 3), pooling="avg", name="inception_v3"
        )

    if weights == "imagenet":
        try:
            return build("imagenet")
        except Exception as error:  # Keras raises plain Exception for failed downloads
            raise MemeloomError(
                f"the ImageNet weights of InceptionV3 cannot be had ({str(error)[:200]}); set "
                "train.pictures.weights to a file of them, or to none"
            ) from error
    check_encoder_weights(weights)
    network = build(None)
    if weights == "none":
        _scatter(network, seed)
        return network
    try:
        network.load_weights(weights)
    except (OSError, ValueError, KeyError) as error:
        first = str(error).strip().partition("\n")[0]
        raise MemeloomError(f"{weights}: not the weights of InceptionV3 without its top ({first[:200]})") from error
    return network


def _scatter(network: Any, seed: int) -> None:
    """Initialise all kernels to preserve the variance across layers (He et al. 2015)."""
    rng = np.random.default_rng(seed)
    drawn = []
    for weight in network.get_weights():
        if weight.ndim == 4:
            spread = np.sqrt(2 / np.prod(weight.shape[:-1]))
            weight = rng.normal(0, spread, weight.shape).astype(np.float32)  # noqa: PLW2901
        drawn.append(weight)
    network.set_weights(drawn)
