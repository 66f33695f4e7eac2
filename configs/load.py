"""Load the settings: command line > environment > file > default, checked against the schema."""

import difflib
import os
import re
from collections.abc import Container, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import BaseModel, SecretStr, ValidationError

from memeloom.configs.errors import ConfigError
from memeloom.configs.masks import MASK, mask_url
from memeloom.configs.outputs import write_text
from memeloom.configs.schema import Config
from memeloom.configs.sources import known_sources

DEFAULTS = Path(__file__).with_name("default.yaml")
PRESETS = Path(__file__).with_name("presets")
ENVIRONMENT_PREFIX = "MEMELOOM_"
# Variables of the Makefile and the tests, not settings.
_NOT_SETTINGS = {"MEMELOOM_CACHE", "MEMELOOM_DATA"}
_REFERENCE = re.compile(r"\$\{(\w+)\}")
# PyYAML's C parser needs a tenth of the time; it is missing where PyYAML was built without libyaml.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Tree: TypeAlias = dict[str, Any]


def load_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Config:
    """Load the settings.

    Args:
        path: the user's YAML file, or the name of one of `PRESETS`; it holds only what differs from `default.yaml`.
        overrides: ``section.key=value`` from the command line; the value is YAML.
        environment: variables; ``MEMELOOM_CRAWL__MAX_MEMES=9`` sets ``crawl.max_memes``. Default: `os.environ`.
        options: values by ``section.key``. They take precedence and are used verbatim, neither parsed as YAML nor
            searched for ``${NAME}``.

    Raises:
        ConfigError: unreadable file, not YAML, unknown key (the nearest known one is suggested), wrong type, missing
            variable.
    """
    environment = os.environ if environment is None else environment
    options = options or {}
    tree = read_defaults()
    origins: dict[str, str] = {}
    if path is not None:
        _merge(tree, read_yaml(_preset(path) or path), str(path), origins)
    for name, value in sorted(environment.items()):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in _NOT_SETTINGS:
            key = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
            _merge(tree, _nest(key, _parse_value(value, name)), f"environment variable {name}", origins)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {mask_url(override)!r}: write section.key=value")
        _merge(tree, _nest(key, _parse_value(value, f"--set {key}")), f"--set {key}", origins)
    for key, value in options.items():
        _merge(tree, _nest(key, value), "command line", origins)
    written: dict[str, str] = {}
    tree = _fill_references(tree, environment, options, written)
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_first_problem(error, origins)) from None
    config.written.update(written)
    return config


def masked(config: BaseModel) -> Tree:
    """Return `config` as JSON values with all secrets masked.

    Secret settings are masked entirely, addresses as `mask_url` does. A value with ``${NAME}`` is shown as the user
    wrote it, without what the environment has put there.
    """
    return _masked_section(config, config.written if isinstance(config, Config) else {})


def write_config(path: Path, config: Config) -> None:
    """Write the settings to `path` as YAML, secrets masked."""
    write_text(path, yaml.safe_dump(masked(config), sort_keys=False, allow_unicode=True))


def _masked_section(section: BaseModel, written: Mapping[str, str], prefix: str = "") -> Tree:
    fields = type(section).model_fields
    return {name: _masked_value(getattr(section, name), written, f"{prefix}{name}") for name in fields}


def _masked_value(value: Any, written: Mapping[str, str], key: str) -> Any:
    match value:
        case SecretStr():
            return MASK
        case BaseModel():
            return _masked_section(value, written, f"{key}.")
        case str():
            return mask_url(written.get(key, value))
        case tuple():
            return [_masked_value(item, written, f"{key}.{place}") for place, item in enumerate(value)]
        case date():
            return value.isoformat()
    return value


def _preset(name: Path) -> Path | None:
    if name.exists() or len(name.parts) != 1 or name.suffix:
        return None
    path = PRESETS / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(preset.stem for preset in PRESETS.glob("*.yaml")))
        raise ConfigError(f"{name}: no such file, and no preset of that name; presets are {known}")
    return path


def read_defaults() -> Tree:
    """Return all defaults: those of `DEFAULTS`, and those of each source."""
    tree = read_yaml(DEFAULTS)
    for name, source in known_sources().items():
        tree["crawl"][name] = read_yaml(source.defaults)
    return tree


def read_yaml(path: Path) -> Tree:
    """Read a file of settings; ConfigError if it is none."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.load(text, _LOADER)  # noqa: S506 a safe loader
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # The C parser reports an unexpected end after the last line.
        where = f", line {min(mark.line + 1, len(text.splitlines()))}" if mark else ""
        raise ConfigError(f"{path}{where}: not YAML: {getattr(error, 'problem', None) or error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected settings as `key: value`, found {type(tree).__name__}")
    return tree


def _parse_value(text: str, origin: str) -> Any:
    try:
        return yaml.load(text, _LOADER)  # noqa: S506 a safe loader
    except yaml.YAMLError:
        raise ConfigError(f"{origin}: {mask_url(text)!r} is not a YAML value; quote it") from None


def _nest(dotted: str, value: Any) -> Tree:
    for key in reversed(dotted.split(".")):
        value = {key: value}
    return value  # type: ignore[no-any-return]


def _merge(base: Tree, extra: Tree, origin: str, origins: dict[str, str], prefix: str = "") -> None:
    """Override `base` with `extra`. `base` has every valid key, so an unknown key is a mistake."""
    for key, value in extra.items():
        dotted = f"{prefix}{key}"
        if key not in base:
            near = difflib.get_close_matches(str(key), base, n=1, cutoff=0.4)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known are {', '.join(base)}"
            raise ConfigError(f"{origin}: unknown key {dotted}{hint}")
        if isinstance(base[key], dict):
            if not isinstance(value, dict):
                raise ConfigError(f"{origin}: {dotted} is a group of settings ({', '.join(base[key])}), not a value")
            _merge(base[key], value, origin, origins, f"{dotted}.")
        else:
            base[key] = value
            origins[dotted] = origin


def _fill_references(
    value: Any, environment: Mapping[str, str], literal: Container[str], written: dict[str, str], key: str = ""
) -> Any:
    """Replace ``${NAME}`` references in `value`, the setting `key`, except below the keys in `literal`.

    Adds each replaced value to `written`, as it was before.
    """
    if key in literal:
        return value
    if isinstance(value, (dict, list)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        filled = {k: _fill_references(v, environment, literal, written, f"{key}.{k}".lstrip(".")) for k, v in pairs}
        return filled if isinstance(value, dict) else list(filled.values())
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            raise ConfigError(f"{key}: environment variable {name} is not set")
        written[key] = value
        return environment[name]

    return _REFERENCE.sub(look_up, value)


def _first_problem(error: ValidationError, origins: Mapping[str, str]) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    parts = [str(part) for part in problem["loc"]]
    dotted = ".".join(parts)
    setting = next((key for key in origins if dotted == key or dotted.startswith(f"{key}.")), dotted)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{origins.get(setting, DEFAULTS.name)}: {dotted}: {problem['msg']}{more}"
