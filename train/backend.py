"""TensorFlow and Keras, imported in one place: slow (3-8 s, 600 MB), and loud unless it is told not to be.

Import `keras` and `tf` from here only. Keras chooses its backend by KERAS_BACKEND; TensorFlow reads
the data whatever it is.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _muted() -> Iterator[None]:
    """Keep what native code writes to standard error; show it only if the body fails.

    TensorFlow's loader logs before it reads TF_CPP_MIN_LOG_LEVEL, so the variable alone is not enough.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as words:
        os.dup2(words.fileno(), 2)
        try:
            yield
        except BaseException:
            words.seek(0)
            os.write(kept, words.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with _muted():
    import keras
    import tensorflow as tf

    DEVICES = tuple(device.device_type for device in tf.config.list_physical_devices())

__all__ = ["DEVICES", "keras", "tf", "xla_pays"]


def xla_pays() -> bool:
    """Whether to compile the training step with XLA.

    On the CPU the convolutions of XLA are 7 times slower than TensorFlow's own (bench/train.py).
    """
    return keras.backend.backend() == "jax" or "GPU" in DEVICES
