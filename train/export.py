"""The stage that writes a trained model for other programs.

| format | what is written for a network NAME | who reads it |
| --- | --- | --- |
| keras | `NAME.keras` | Keras 3 on any backend |
| saved-model | `NAME/1/saved_model.pb` and its variables, as TensorFlow Serving wants its versions | TensorFlow |
| onnx | `NAME.onnx`, and what `memeloom.train.runtime` reads | ONNX Runtime, `memeloom generate` |

The folder also has the model's vocabulary, templates, metrics and settings, and `export.json`, written last: inputs and
outputs of the networks, and the sha256 of every file.
"""

import json
import shutil
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.extras import require
from memeloom.configs.outputs import replace_folder, write_json
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema_models import KindName
from memeloom.dataset.manifest import DatasetTemplate, file_sha256
from memeloom.train.checks import check_backend
from memeloom.train.contract import Captioner
from memeloom.train.generate import templates_by_text
from memeloom.train.model_folder import CARD, NotAModel, load_model, read_card, runtime_arrays, write_content
from memeloom.train.runtime import EXPORT, EXPORT_KIND, EXPORT_VERSION

ExportFormat: TypeAlias = Literal["saved-model", "onnx", "keras"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
# TensorFlow Serving serves the highest version.
_SERVED_VERSION = "1"


class Endpoint(NamedTuple):
    """A further signature of a SavedModel.

    function: of tensors, to a dictionary of tensors by name. inputs: `tf.TensorSpec`s. resources: tables that it uses.
    """

    function: Callable[..., Mapping[str, Any]]
    inputs: Sequence[Any]
    resources: Sequence[Any]


# Modules with a function `endpoints(model)` that returns, for each network, its further endpoints by name.
_ENDPOINTS: Final[Mapping[KindName, str]] = MappingProxyType({"convnet": "memeloom.train.convnet.serving"})


def export_model(model: Path, output: Path, format_name: ExportFormat, progress: Progress = SILENT) -> Summary:
    """Write the model in the folder `model` into the folder `output`, which is replaced as a whole.

    Model, output folder, format and backend are checked before the backend is loaded.

    Raises:
        NotAModel: there is none, or a damaged one.
        ConfigError, MissingExtra: the format needs a package, or another backend.
        MemeloomError: `output` exists and is not an export, another export is writing it, the format does not support
            the network, a training wrote a model into `model` meanwhile, or the disk refuses.
    """
    card = read_card(model)
    if not card["networks"]:
        raise MemeloomError(f"{model}: {card['model']} has no network to export; its folder runs without TensorFlow")
    backend = check_backend()
    if format_name != "keras" and backend != "tensorflow":
        raise ConfigError(f"{format_name} is written with TensorFlow; set KERAS_BACKEND=tensorflow (now {backend})")
    if format_name == "onnx":
        require("onnx", "tf2onnx")
    with replace_folder(output, "an export", _is_export) as folder:
        captioner = load_model(model, progress)
        progress.start("export", len(captioner.networks), "networks")
        for name, network in captioner.networks.items():
            _WRITERS[format_name](folder, name, network, captioner)
            progress.advance()
        arrays = runtime_arrays(captioner)
        card_sha256 = _copy_files(model, card, folder, arrays)
        if format_name == "onnx":
            for name, content in arrays.items():
                write_content(folder / name, content)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        about = {
            "kind": EXPORT_KIND,
            "version": EXPORT_VERSION,
            "format": format_name,
            "model": captioner.kind,
            "model_sha256": card_sha256,
            "settings": dict(captioner.settings),
            "networks": {name: _interface(network) for name, network in captioner.networks.items()},
            "files": {str(path.relative_to(folder)): file_sha256(path) for path in files},
        }
        write_json(folder / EXPORT, about)
    progress.finish()
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    return Summary(
        "export-model",
        counts={"networks": len(captioner.networks), "files": len(files) + 1, "bytes": size},
        outputs={"export": str(output)},
    )


def _is_export(path: Path) -> bool:
    try:
        return bool(json.loads((path / EXPORT).read_text(encoding="utf-8"))["kind"] == EXPORT_KIND)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _copy_files(model: Path, card: Mapping[str, Any], folder: Path, arrays: Collection[str]) -> str:
    """Copy what the model has beside its networks and `arrays`; return the sha256 of its card.

    A training removes the card before it replaces files: if it is still equal to `card`, all that was read belongs to
    one model.

    Raises:
        MemeloomError: the card changed, or is gone.
    """
    try:
        for name in card["files"]:
            if not name.endswith(".keras") and name not in arrays:
                shutil.copyfile(model / name, folder / name)
        sha256 = file_sha256(model / CARD)
        changed = read_card(model) != card
    except (FileNotFoundError, NotAModel):
        changed = True
    if changed:
        raise MemeloomError(f"{model}: the model changed while it was exported; export it again")
    return sha256


def _write_keras(folder: Path, name: str, network: Any, _: Captioner) -> None:
    from memeloom.train.backend import keras

    keras.saving.save_model(network, folder / f"{name}.keras", include_optimizer=False)


def _write_saved_model(folder: Path, name: str, network: Any, captioner: Captioner) -> None:
    from memeloom.train.backend import keras

    archive = keras.export.ExportArchive()
    # The archive finds the variables that endpoints use; tracking the network, too, would write them twice.
    # The first endpoint is also `serving_default`.
    archive.add_endpoint("serve", lambda *inputs: network(*inputs, training=False), _signature(network))
    if captioner.kind in _ENDPOINTS:
        more: Mapping[str, Mapping[str, Endpoint]] = import_module(_ENDPOINTS[captioner.kind]).endpoints(captioner)
        for called, endpoint in more.get(name, {}).items():
            for resource in endpoint.resources:
                archive.track(resource)
            archive.add_endpoint(called, endpoint.function, list(endpoint.inputs))
    archive.write_out(str(folder / name / _SERVED_VERSION), verbose=False)


def _write_onnx(folder: Path, name: str, network: Any, _: Captioner) -> None:
    try:
        with warnings.catch_warnings():
            # tf2onnx and Keras's bridge to it support older NumPys, too.
            warnings.simplefilter("ignore")
            network.export(
                str(folder / f"{name}.onnx"), format="onnx", verbose=False, input_signature=_signature(network)
            )
    except (NotImplementedError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise MemeloomError(f"the network {name!r} cannot be written as ONNX ({error}); choose saved-model") from error


_WRITERS: Final[Mapping[ExportFormat, Callable[[Path, str, Any, Captioner], None]]] = MappingProxyType(
    {"keras": _write_keras, "saved-model": _write_saved_model, "onnx": _write_onnx}
)


def _signature(network: Any) -> list[Any]:
    """Return the input signature of the network, for any number of rows."""
    from memeloom.train.backend import keras

    def spec(tensor: Any) -> Any:
        return keras.InputSpec(shape=(None, *tensor.shape[1:]), dtype=tensor.dtype, name=tensor.name)

    return [keras.tree.map_structure(spec, network.input)]


def _interface(network: Any) -> dict[str, Any]:
    from memeloom.train.backend import keras

    def described(tensors: Any) -> list[dict[str, Any]]:
        return [
            {"name": tensor.name, "shape": list(tensor.shape), "dtype": str(tensor.dtype)}
            for tensor in keras.tree.flatten(tensors)
        ]

    return {"inputs": described(network.input), "outputs": described(network.output)}


def lookup(content: Mapping[str, Any], default: Any) -> Any:
    """Return a TensorFlow table that finds texts or numbers by texts, for endpoints."""
    import tensorflow as tf

    values = tf.constant(list(content.values()), tf.string if isinstance(default, str) else tf.int32)
    initial = tf.lookup.KeyValueTensorInitializer(tf.constant(list(content)), values)
    return tf.lookup.StaticHashTable(initial, default)


def template_names(templates: Sequence[DatasetTemplate]) -> dict[str, str]:
    """Return the ids of templates by id, slug and name, in lower case, for endpoints.

    Graphs look up what `tf.strings.lower` makes of a name, which leaves ß as it is; the case-folded name is there, too,
    because STRASSE is Straße.
    """
    return {text: template.id for text, template in templates_by_text(templates, str.casefold, str.lower).items()}
