"""Checks of what memeloom depends on and of its own files, without a network.

    python deploy/audit.py                     all checks
    python deploy/audit.py secrets --accept    what is found, after a look at it, becomes the baseline

`locks`: every package is pinned by version and sha256, and none comes from an address. `licences`: each installed
package has a licence of `_ALLOWED`, or one that `_KNOWN` explains. `secrets`: detect-secrets finds none in the files of
the repository but those in `secrets.baseline`, which are made up. Known vulnerabilities are in a database on the net,
which `pip-audit --require-hashes --disable-pip -r requirements.lock` asks.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BASELINE: Final = ROOT / "deploy" / "secrets.baseline"
_HASHED = re.compile(r"--hash=sha256:[0-9a-f]{64}")
# A name, perhaps with extras, one version, and perhaps for which systems.
_PINNED = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,._-]+\])?==[A-Za-z0-9.!+_-]+( ; [a-zA-Z0-9_.'\"<>=!~() -]+)?")
# Anyone may use, change and pass on what these cover, in a program under MIT. Weak copyleft (MPL, LGPL) asks for the
# source of the package itself, which memeloom neither changes nor contains.
_ALLOWED: Final = frozenset({
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "LGPL-2.1-or-later", "MIT",
    "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Public-Domain", "Unlicense", "Zlib", "ZPL-2.1",
})  # fmt: skip
# How metadata without an SPDX expression names them.
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "3-Clause BSD License": "BSD-3-Clause",
        "Apache": "Apache-2.0",
        "Apache 2.0": "Apache-2.0",
        "Apache License 2.0": "Apache-2.0",
        "Apache Software License": "Apache-2.0",
        "BSD": "BSD-3-Clause",
        "BSD License": "BSD-3-Clause",
        "ISC License (ISCL)": "ISC",
        "MIT License": "MIT",
        "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
        "Python Software Foundation License": "PSF-2.0",
    }
)
# Packages whose metadata state no licence, or one that the lists above cannot tell, and what their own files say.
_KNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mlcroissant": "Apache-2.0",  # its repository's LICENSE; used by tests only
        "namex": "Apache-2.0",  # its repository's LICENSE; Keras needs it
    }
)


def locks() -> Iterator[str]:
    """Yield what is wrong with the lock files."""
    for path in sorted(ROOT.glob("requirements*.lock")):
        yield from lock_faults(path.name, path.read_text(encoding="utf-8"))


def lock_faults(name: str, text: str) -> Iterator[str]:
    """Yield each package of a lock file that is not pinned by version and hash, and each line that is no package."""
    for line in text.replace("\\\n", " ").splitlines():
        package, *hashes = re.split(r"\s+(?=--hash)", line.strip())
        if not package or package.startswith("#"):
            continue
        if not _PINNED.fullmatch(package):
            yield f"{name}: not a package with one version: {package}"
        elif not hashes or not all(_HASHED.fullmatch(each.strip()) for each in hashes):
            yield f"{name}: without a sha256, or with something else: {package}"


def licences() -> Iterator[str]:
    """Yield the installed packages whose licence is not allowed."""
    for package in distributions():
        name = package.metadata["Name"]
        if name != "memeloom" and (fault := licence_fault(licence_of(package))):
            yield f"{name} {package.version}: {fault}"


def licence_of(package: Distribution) -> str:
    """Return the licence of a package as an SPDX expression, or as it is stated; empty if it is not."""
    facts = package.metadata
    if known := _KNOWN.get(str(facts["Name"])):
        return known
    if expression := facts.get("License-Expression"):
        return str(expression)
    stated = [each.rpartition(" :: ")[2] for each in facts.get_all("Classifier") or () if each.startswith("License")]
    stated = [each for each in stated if each not in ("OSI Approved", "DFSG approved")]
    lines = str(facts.get("License") or "").strip().splitlines()
    return " OR ".join(_NAMES.get(each, each) for each in stated or lines[:1])


def licence_fault(expression: str) -> str:
    """Return what is wrong with a licence, or ""; of alternatives one must be allowed, of several together each."""
    if not expression:
        return "states no licence; look for it, and add it to _KNOWN"
    parts = re.sub(r"[()]", " ", expression).replace(" and ", " AND ")
    for part in parts.split(" AND "):
        if not any(each.strip() in _ALLOWED for each in part.split(" OR ")):
            return f"licence {part.strip()!r} is not among those allowed"
    return ""


def secrets() -> Iterator[str]:
    """Yield what looks like a secret in the files of the repository, and is not in the baseline."""
    known = {tuple(each) for each in json.loads(BASELINE.read_text(encoding="utf-8"))}
    for found, line in found_secrets().items():
        if found not in known:
            yield f"{found[0]}:{line}: {found[1]}"


def accept() -> None:
    """Write all that is found into the baseline, by hash."""
    lines = ",\n".join(json.dumps(found) for found in sorted(found_secrets()))
    BASELINE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def found_secrets() -> dict[tuple[str, str, str], int]:
    """Return the line of each likely secret by file, kind and hash; binary files and lock files are not read."""
    from detect_secrets import SecretsCollection
    from detect_secrets.settings import default_settings

    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [name for name in listed.split("\0") if name and not name.endswith((".lock", ".baseline"))]
    found = SecretsCollection(root=str(ROOT))
    with default_settings():
        for name in files:
            found.scan_file(name)
    return {(name, secret.type, secret.secret_hash): secret.line_number for name, secret in found}


CHECKS: Final[Mapping[str, Callable[[], Iterator[str]]]] = MappingProxyType(
    {"locks": locks, "licences": licences, "secrets": secrets}
)


def main() -> None:
    """Run the checks that the command line names, else all; exit 1 if one fails."""
    names = [each for each in sys.argv[1:] if each != "--accept"] or list(CHECKS)
    if not set(names) <= set(CHECKS):
        sys.exit(__doc__)
    if "--accept" in sys.argv:
        accept()
    faults = 0
    for name in names:
        found = list(CHECKS[name]())
        faults += len(found)
        sys.stdout.write(f"{name}: {'; '.join(found) or 'nothing wrong'}\n" if len(found) < 2 else "")
        sys.stdout.write("".join(f"{name}: {fault}\n" for fault in found) if len(found) > 1 else "")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
