"""What the GPU bench counts."""

from bench.gpu import Run, training_flops, transformer_flops
from memeloom.train.backend import keras
from memeloom.train.convnet.model import build_convnet
from memeloom.train.transformer.network import build_network


def test_the_operations_of_a_training_step_are_those_of_its_products() -> None:
    network = build_convnet(70, filters=8, embedding=4, sequence_length=32, dropout=0, seed=1)
    embedding = 32 * 71 * 4
    convolutions = 5 * 8 * (32 * 4 + (16 + 8 + 4 + 2) * 8)
    dense = 8 * 8 + 8 * 70
    assert training_flops(network) == 2 * (2 * embedding + 3 * (convolutions + dense))


def test_the_operations_of_a_transformer_are_those_of_its_matrices_and_of_attention() -> None:
    network = build_network(70, 3, depth=2, dropout=0, seed=1)
    blocks = network.get_layer("transformer").blocks
    kernels = [layer.kernel for block in blocks for layer in block.values() if isinstance(layer, keras.layers.Dense)]
    assert transformer_flops(2) == 6 * (
        sum(kernel.shape[0] * kernel.shape[1] for kernel in kernels) + 2 * 2 * 256 * 128
    )


def test_seconds_until_an_accuracy_are_those_of_the_epochs_up_to_it() -> None:
    rows = [{"validation_accuracy": accuracy, "seconds": 2.0} for accuracy in (0.1, 0.5, 0.4, 0.7)]
    run = Run(rows, "characters")
    assert [run.seconds_until(goal) for goal in (0.0, 0.45, 0.6, 0.7)] == [2.0, 4.0, 8.0, None]
