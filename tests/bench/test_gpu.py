"""What the GPU bench counts."""

from bench.gpu import Run, training_flops
from memeloom.train.convnet.model import build_convnet


def test_the_operations_of_a_training_step_are_those_of_its_products() -> None:
    network = build_convnet(70, filters=8, embedding=4, sequence_length=32, dropout=0, seed=1)
    embedding = 32 * 71 * 4
    convolutions = 5 * 8 * (32 * 4 + (16 + 8 + 4 + 2) * 8)
    dense = 8 * 8 + 8 * 70
    assert training_flops(network) == 2 * (2 * embedding + 3 * (convolutions + dense))


def test_seconds_until_an_accuracy_are_those_of_the_epochs_up_to_it() -> None:
    rows = [{"validation_accuracy": accuracy, "seconds": 2.0} for accuracy in (0.1, 0.5, 0.4, 0.7)]
    run = Run(rows, "characters")
    assert [run.seconds_until(goal) for goal in (0.0, 0.45, 0.6, 0.7)] == [2.0, 4.0, 8.0, None]
