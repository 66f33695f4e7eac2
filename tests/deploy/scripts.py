"""The scripts of `deploy/`, which belong to no package."""

import importlib.util
from pathlib import Path
from types import ModuleType

DEPLOY = Path(__file__).parents[2] / "deploy"


def script(name: str) -> ModuleType:
    """Import `deploy/<name>.py`."""
    spec = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
