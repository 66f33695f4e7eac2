"""The card of a model, `README.md` in its folder: what it is, what it learned from, how good it is, and its limits.

Hubs show it as the model's first page. Training writes it, and evaluation adds its figures. A card without the
line `MARK` belongs to its editor and is never written again.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from memeloom.configs.outputs import write_text
from memeloom.configs.schema_models import KindName, Train
from memeloom.dataset.manifest import Manifest
from memeloom.report.format import duration, number, percent
from memeloom.report.markdown import code, escaped, foreign, table
from memeloom.train.evaluation.results import ModelResult, Results
from memeloom.train.model_folder import read_card

README: Final = "README.md"
MARK: Final = "<!-- Written by memeloom. Remove this line to keep your own text. -->"
_EVALUATION: Final = "## Evaluation"
_KINDS: Final[Mapping[KindName, str]] = MappingProxyType({
    "causal": "counts of contexts, corrected by a small recurrent network, character by character",
    "convnet": "the convolutional network of the Imgflip article, character by character",
    "hub": "a language model of KerasHub, trained further, token by token",
    "ngram": "counts of contexts, character by character",
    "show-and-tell": "Show and Tell: a picture encoder and an LSTM, word by word",
    "transformer": "a decoder of transformer blocks, character by character",
})  # fmt: skip
_LIMITS: Final = (
    "It imitates what people wrote: it states no facts, and writes insults, profanity and nonsense as its captions do. "
    "Filters of the dataset and of `memeloom generate` leave out known words only.",
    "It knows the templates and the languages of its dataset; others are captioned worse, or not at all.",
    "It may repeat training captions, and with them names of people. `memeloom evaluate` measures how often; "
    "let a person read what is published.",
    "It is not for decisions about people, nor for texts published under a person's name.",
)
_USE: Final = """```sh
memeloom generate --model {folder} -n 5
```

```python
import memeloom

for caption in memeloom.load_model("{folder}").write("{template}", captions=3):
    print(caption.boxes, caption.score)
```"""


def write_model_card(folder: Path, settings: Train, manifest: Manifest) -> None:
    """Write the card of the model in `folder`, unless it was edited. manifest: of the dataset that it learned from.

    A card of the same training stays, with the figures of its evaluation.

    Raises:
        NotAModel: there is no model.
        MemeloomError: it cannot be written.
    """
    known, text = _read(folder), render_model_card(folder, settings, manifest)
    if known is None or (MARK in known and known.partition(f"\n{_EVALUATION}")[0].rstrip() != text.rstrip()):
        write_text(folder / README, text)


def add_evaluation(results: Results) -> None:
    """Add the figures of each evaluated model to its card, in place of older ones; leave out cards that were edited."""
    for model in results.models:
        known = _read(Path(model.folder)) if model.folder is not None else None
        if model.folder is not None and known is not None and MARK in known:
            text = known.partition(f"\n{_EVALUATION}")[0].rstrip()
            write_text(Path(model.folder) / README, f"{text}\n\n{_evaluation(results, model)}\n")


def render_model_card(folder: Path, settings: Train, manifest: Manifest) -> str:
    """Return the card in Markdown, without an evaluation. Raises NotAModel."""
    card = read_card(folder, check=lambda _: False)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    slugs = (template.slug for template in manifest.templates if template.slug.isascii())
    use = _USE.format(folder="FOLDER", template=next(slugs, "TEMPLATE"))
    parts = [
        f"{_front_matter(card, manifest)}\n{MARK}",
        f"# Meme captions by {card['model']}",
        f"A model that captions meme templates: {_KINDS.get(card['model'], 'a kind of its own')}; "
        f"{number(card['parameters'])} parameters. It writes a text for each box of a template.",
        f"## Use\n\n{use}",
        f"## Training data\n\n{_data(manifest)}",
        f"## Training\n\n{_training(metrics, settings)}",
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in _LIMITS),
        "## Licence\n\nThe software is under the MIT licence. The licence of this model depends on its captions, "
        "which belong to their authors; state it in the front matter.",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(card: Mapping[str, Any], manifest: Manifest) -> str:
    languages = manifest.lineage.settings.get("languages") or []
    facts = {
        "library_name": "memeloom",
        "pipeline_tag": "text-generation",
        "tags": ["memes", "captioning", str(card["model"])],
        **({"language": list(languages)} if languages else {}),
        "license": "unknown",
    }
    return f"---\n{yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)}---\n"


def _data(manifest: Manifest) -> str:
    settings = manifest.lineage.settings
    languages = ", ".join(map(str, settings.get("languages") or ())) or "any language"
    sources = table(("source", "captions"), sorted(manifest.kept.items()))
    train = manifest.splits["train"]
    profanity = escaped(str(settings.get("profanity", "unknown")))
    return (
        f"{number(train)} captions on {number(len(manifest.templates))} templates; language: {escaped(languages)}; "
        f"profanity: {profanity}. Dataset {code(manifest.digest)}, built by `memeloom build-dataset`; its own card "
        f"says how captions were filtered.\n\n{sources}"
    )


def _training(metrics: Mapping[str, Any], settings: Train) -> str:
    rows: list[tuple[str, str]] = [
        ("loss on validation captions, natural logarithm", _figure(metrics.get("validation_loss"))),
        ("first choices that were right, on validation captions", _figure(metrics.get("validation_accuracy"))),
        ("epoch", str(metrics.get("epoch", "unknown"))),
        ("time", duration(seconds) if isinstance(seconds := metrics.get("train_seconds"), int | float) else "unknown"),
        ("device", f"{metrics.get('devices', 1)} x {metrics.get('device', 'unknown')}, {metrics.get('backend')}"),
        ("seed", str(settings.seed)),
        ("other texts", str(len(settings.pretrain)) if settings.pretrain else "none"),
        ("votes of visitors", "none" if settings.feedback is None else "yes"),
        ("commit", str(metrics.get("commit", "unknown"))),
    ]
    samples = "\n".join(f"- {foreign(str(sample))}" for sample in metrics.get("samples") or ())
    written = f"\n\nCaptions that it wrote at the end:\n\n{samples}" if samples else ""
    return f"{table(('', 'value'), rows)}\n\n`config.yaml` has all settings.{written}"


def _evaluation(results: Results, model: ModelResult) -> str:
    likelihood = model.likelihood
    bits = likelihood.bits_per_character
    rows = [
        ("bits per character", f"{bits.value:.3f} ({bits.low:.3f} to {bits.high:.3f})"),
        ("perplexity per character", f"{likelihood.perplexity_per_character:.2f}"),
    ]
    for temperature, found in model.sweep.items():
        where = f"at temperature {temperature:g}"
        rows += [
            (f"captions whose template is recognised, {where}", percent(found.recognised)),
            (f"runs of characters known from training, {where}", percent(found.remembered)),
        ]
    figures = table(("measure", "value"), rows)
    return (
        f"{_EVALUATION}\n\nBy `memeloom evaluate` on {number(results.captions)} captions of the split {results.split}, "
        f"which no training saw; dataset {code(results.digest)}; intervals of 95 %.\n\n{figures}"
    )


def _figure(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "unknown"


def _read(folder: Path) -> str | None:
    try:
        return (folder / README).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
