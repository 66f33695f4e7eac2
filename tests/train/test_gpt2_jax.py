"""GPT-2 reads and writes on JAX as it does on TensorFlow, and by the weights of the moment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("keras_hub")
ROOT = Path(__file__).parents[2]
SCRIPT = """
import json
import numpy as np
from memeloom.train.backend import BACKEND
from memeloom.train.characters import Alphabet
from memeloom.train.corpus import Captions
from memeloom.train.gpt2.network import new_network
from memeloom.train.gpt2.model import Gpt2Captioner
from memeloom.train.gpt2.tokens import Tokens, learn_tokens
from memeloom.train.contract import Prompt
from memeloom.dataset.manifest import DatasetTemplate

text = "wow|such data|"
alphabet = Alphabet.of(sorted(set(text)))
tokens = Tokens(*learn_tokens([text], 300), alphabet, "|")
template = DatasetTemplate(
    id="1", name="Doge", slug="doge", captions=1, boxes=2, box_count=None, geometry=(), image_key=None
)
model = Gpt2Captioner(new_network(len(tokens), window=32, dropout=0), tokens, (template,), 32)
numbers = alphabet.encode(text)
one = Captions(
    numbers, np.zeros(len(numbers), np.uint8), np.array([0, len(numbers)]), np.zeros(1, np.int32),
    alphabet.prefixes(["1"], 2),
)
def at_once():
    return float(model.score(one, 0, 1).log_likelihood[0])
def one_by_one():
    state, found = model.start_decoding([Prompt(template)]), 0.0
    for token in tokens.streams([text])[0][1]:
        found += float(state.log_probs()[0, token])
        state.append(np.array([token]))
    return found
before = (at_once(), one_by_one())
for weight in model.network.trainable_weights:
    weight.assign(np.asarray(weight) * 3)
print(json.dumps([BACKEND, before, (at_once(), one_by_one())]))
"""


def test_it_reads_and_writes_on_jax() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    backend, before, after = json.loads(ran.stdout)
    assert backend == "jax"
    assert before[1] == pytest.approx(before[0], abs=1e-3)
    assert after[1] == pytest.approx(after[0], abs=1e-3)
    assert abs(after[0] - before[0]) > 0.1
