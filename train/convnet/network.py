"""The character-level convolutional network of the Imgflip article."""

from typing import Any

from memeloom.train.backend import keras

_BLOCKS = 5
_KERNEL = 5
# Of the moving statistics. Keras's 0.99 lags behind a training of a few hundred steps, so that the network
# looks as if it had learned nothing; ten batches of many positions each are statistics enough.
_MOMENTUM = 0.9


def build_convnet(
    characters: int, *, filters: int, embedding: int, sequence_length: int, dropout: float, seed: int
) -> Any:
    """The network: the next character from the last `sequence_length`.

    Input: int32 (batch, sequence_length), numbers of characters, padded with 0 on the left.
    Output: float32 (batch, characters), a probability for each character (index 0 is character number 1).

    Five blocks of convolution, batch normalisation, max-pooling (the fifth over the whole length) and
    dropout, then one dense layer. With 70 characters and 1024 filters: 22,205,622 parameters, as in the article.
    Equal seeds give equal weights and equal dropout.
    """
    layers = keras.layers
    seeds = iter(range(seed * 1000, (seed + 1) * 1000))

    def glorot() -> Any:
        return keras.initializers.GlorotUniform(seed=next(seeds))

    uniform = keras.initializers.RandomUniform(seed=next(seeds))
    numbers = layers.Input((sequence_length,), dtype="int32", name="characters")
    # An embedding, written as a product: the gradient of `layers.Embedding` is sparse, and Keras's sparse
    # RMSprop step fails on indices that repeat once a number overflows.
    x = layers.CategoryEncoding(characters + 1, output_mode="one_hot")(numbers)
    x = layers.Dense(embedding, use_bias=False, kernel_initializer=uniform, name="embedding")(x)
    for block in range(_BLOCKS):
        x = layers.Conv1D(filters, _KERNEL, padding="same", activation="relu", kernel_initializer=glorot())(x)
        x = layers.BatchNormalization(momentum=_MOMENTUM)(x)
        x = layers.GlobalMaxPooling1D()(x) if block == _BLOCKS - 1 else layers.MaxPooling1D(2)(x)
        x = layers.Dropout(dropout, seed=next(seeds))(x)
    x = layers.Dense(filters, activation="relu", kernel_initializer=glorot())(x)
    x = layers.BatchNormalization(momentum=_MOMENTUM)(x)
    x = layers.Dropout(dropout, seed=next(seeds))(x)
    scores = layers.Dense(characters, activation="softmax", dtype="float32", kernel_initializer=glorot())(x)
    return keras.Model(numbers, scores, name="convnet")
