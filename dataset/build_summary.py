"""The summary of a build."""

from collections.abc import Mapping

from memeloom.configs.runs import Summary
from memeloom.configs.schema import Dataset
from memeloom.dataset.formats.registry import FORMATS, tensorflow_reads
from memeloom.dataset.manifest import Manifest


def summarise(
    manifest: Manifest, settings: Dataset, reused: Mapping[str, int], seconds: Mapping[str, float]
) -> Summary:
    """Return the summary of a build. reused: numbers of memes and shards taken from a former build."""
    output = settings.output
    kept = {"dropped captions": f"{output}/dropped-*.jsonl*"} if manifest.dropped_files else {}
    return Summary(
        stage="build-dataset",
        counts={
            "memes": manifest.records + sum(manifest.dropped.values()),
            "kept": manifest.records,
            **{str(split): records for split, records in manifest.splits.items()},
            "templates": len(manifest.templates),
            "characters": manifest.characters,
            "words": manifest.words,
            "shards": len(manifest.shards),
            "bytes": manifest.bytes,
            **{f"{name} as they were": n for name, n in reused.items() if n},
        },
        reasons=manifest.dropped,
        outputs={"dataset": output, **kept, "card": f"{output}/card.html", **_warning(settings)},
        seconds=dict(seconds),
    )


def _warning(settings: Dataset) -> dict[str, str]:
    if tensorflow_reads(settings.format, settings.compression):
        return {}
    if not FORMATS[settings.format].has_records:
        return {"mind": "records were counted, not written: there is nothing to train on"}
    packed = f" packed with {settings.compression}" if settings.format == "tfrecord" else ""
    return {"mind": f"TensorFlow itself cannot read {settings.format}{packed}; `memeloom train` can"}
