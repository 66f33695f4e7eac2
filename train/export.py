"""The stage that writes a trained model for programs that are not memeloom's.

| format | what is written for a network NAME | who reads it |
| --- | --- | --- |
| keras | `NAME.keras` | Keras 3 on any backend |
| saved-model | `NAME/1/saved_model.pb` and its variables, as TensorFlow Serving wants its versions | TensorFlow |
| onnx | `NAME.onnx` | ONNX Runtime |

Beside them stand the vocabulary, the templates, the metrics and the settings of the model, as in its own folder, and
`export.json`: what the networks take and give, and the sha256 of every file; written last.
"""

import fcntl
import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import tensorflow as tf

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.outputs import fsync_folder, write_json
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary
from memeloom.dataset.manifest import DatasetTemplate, file_sha256
from memeloom.train.backend import BACKEND, keras
from memeloom.train.contract import Captioner, KindName
from memeloom.train.model_folder import CARD, NotAModel, load_model, read_card

ExportFormat: TypeAlias = Literal["saved-model", "onnx", "keras"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
MANIFEST = "export.json"
KIND = "memeloom export"
VERSION = 1
# TensorFlow Serving serves the highest number that it finds.
_SERVED_VERSION = "1"


class Endpoint(NamedTuple):
    """A signature of a SavedModel beside the plain one of its network.

    function: of tensors, to a dictionary of tensors by name. inputs: `tf.TensorSpec`s. resources: tables that it uses.
    """

    function: Callable[..., Mapping[str, Any]]
    inputs: Sequence[Any]
    resources: Sequence[Any]


# Modules with a function `endpoints(model)`: for each network the endpoints that it has beside its own, by name.
_ENDPOINTS: Final[Mapping[KindName, str]] = MappingProxyType(
    {"causal": "memeloom.train.causal.serving", "convnet": "memeloom.train.convnet.serving"}
)


def export_model(model: Path, output: Path, format_name: ExportFormat, progress: Progress = SILENT) -> Summary:
    """Write the model in the folder `model` into the folder `output`, which is replaced as a whole.

    Raises:
        NotAModel: there is none, or a damaged one.
        ConfigError: the format needs a package, or another backend.
        MemeloomError: `output` holds something that is no export, another export is writing it, the format does not
            know what the network is made of, a training wrote a model into `model` meanwhile, or the disk refuses.
    """
    _check_can(format_name)
    card = read_card(model)
    captioner = load_model(model)
    progress.start("export", len(captioner.networks), "networks")
    with _replaced(output) as folder:
        for name, network in captioner.networks.items():
            _WRITERS[format_name](folder, name, network, captioner)
            progress.advance()
        card_sha256 = _take_along(model, card, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        about = {
            "kind": KIND,
            "version": VERSION,
            "format": format_name,
            "model": captioner.kind,
            "model_sha256": card_sha256,
            "settings": dict(captioner.settings),
            "networks": {name: _interface(network) for name, network in captioner.networks.items()},
            "files": {str(path.relative_to(folder)): file_sha256(path) for path in files},
        }
        write_json(folder / MANIFEST, about)
    progress.finish()
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    return Summary(
        "export-model",
        counts={"networks": len(captioner.networks), "files": len(files) + 1, "bytes": size},
        outputs={"export": str(output)},
    )


def _take_along(model: Path, card: Mapping[str, Any], folder: Path) -> str:
    """Copy what the model has beside its networks; the sha256 of its card.

    The card goes before another model comes: while it is still `card`, all that was read is of one model.

    Raises:
        MemeloomError: it is another, or gone.
    """
    beside = [name for name in card["files"] if not name.endswith(".keras")]
    try:
        for name in beside:
            shutil.copyfile(model / name, folder / name)
        sha256 = file_sha256(model / CARD)
        changed = read_card(model) != card
    except (FileNotFoundError, NotAModel):
        changed = True
    if changed:
        raise MemeloomError(f"{model}: the model changed while it was exported; export it again")
    return sha256


def _check_can(format_name: ExportFormat) -> None:
    if format_name == "keras":
        return
    if BACKEND != "tensorflow":
        raise ConfigError(f"{format_name} is written with TensorFlow; set KERAS_BACKEND=tensorflow (now {BACKEND})")
    if format_name == "onnx" and find_spec("tf2onnx") is None:
        raise ConfigError('onnx needs tf2onnx: pip install "memeloom[onnx]"')


def _write_keras(folder: Path, name: str, network: Any, _: Captioner) -> None:
    keras.saving.save_model(network, folder / f"{name}.keras", include_optimizer=False)


def _write_saved_model(folder: Path, name: str, network: Any, captioner: Captioner) -> None:
    archive = keras.export.ExportArchive()
    # The variables of what endpoints call are found by themselves; tracked, they would be written twice.
    # The first one is `serving_default`, too.
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
            # tf2onnx and Keras's bridge to it speak to older NumPys, too.
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
    """What the network takes, with any number of rows."""
    return [keras.tree.map_structure(_spec, network.input)]


def _spec(tensor: Any) -> Any:
    return keras.InputSpec(shape=(None, *tensor.shape[1:]), dtype=tensor.dtype, name=tensor.name)


def _interface(network: Any) -> dict[str, Any]:
    def told(tensors: Any) -> list[dict[str, Any]]:
        return [
            {"name": tensor.name, "shape": list(tensor.shape), "dtype": str(tensor.dtype)}
            for tensor in keras.tree.flatten(tensors)
        ]

    return {"inputs": told(network.input), "outputs": told(network.output)}


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `path`, which must be missing, empty or an export."""
    path = path.resolve()
    if not path.name:
        raise MemeloomError(f"{path} holds something that is no export; choose another folder")
    writing, former = (path.with_name(f".{path.name}.{what}") for what in ("writing", "former"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f".{path.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise MemeloomError(f"another export is writing {path}; wait until it has ended") from None
            if path.exists() and not _may_be_replaced(path):
                raise MemeloomError(f"{path} holds something that is no export; choose another folder")
            if former.exists() and not path.exists():  # an export was killed between its two renames
                former.rename(path)
            for left in (writing, former):
                shutil.rmtree(left, ignore_errors=True)
            writing.mkdir()
            try:
                yield writing
                fsync_folder(writing)
                if path.exists():
                    path.rename(former)
                writing.rename(path)
                fsync_folder(path.parent)
            finally:
                if former.exists() and not path.exists():  # the new one did not come to stand there
                    former.rename(path)
                for left in (writing, former):
                    shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise MemeloomError(f"cannot write {path}: {error.strerror or error}") from error


def _may_be_replaced(path: Path) -> bool:
    if path.is_dir() and not any(path.iterdir()):
        return True
    try:
        return bool(json.loads((path / MANIFEST).read_text(encoding="utf-8"))["kind"] == KIND)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def lookup(content: Mapping[str, Any], default: Any) -> Any:
    """A table that finds texts or numbers by texts."""
    values = tf.constant(list(content.values()), tf.string if isinstance(default, str) else tf.int32)
    initial = tf.lookup.KeyValueTensorInitializer(tf.constant(list(content)), values)
    return tf.lookup.StaticHashTable(initial, default)


def template_names(templates: Sequence[DatasetTemplate]) -> dict[str, str]:
    """The ids of templates by id, slug and name, in lower case; the most frequent one wins a name that several have.

    Graphs look up what `tf.strings.lower` makes of a name, which leaves ß as it is. The case folded name is there, too,
    for STRASSE is Straße.
    """
    return {
        fold(getattr(template, known_as)): template.id
        for known_as in ("name", "slug", "id")
        for fold in (str.casefold, str.lower)
        for template in reversed(templates)
    }
