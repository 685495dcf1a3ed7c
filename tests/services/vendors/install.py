"""Creates an environment for each vendor of the table, with ragmeter as users install it.

Usage: install.py [--packages] FOLDER [NAME ...]; names of vendors, or ``short`` for those in CI; none: all.
``--packages``: the vendors' alone, without ragmeter. Existing ones stay, as recorded by a stamp.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from table import COMMON, VENDORS

ROOT = Path(__file__).resolve().parents[3]
UV = str(ROOT / ".ci" / "uv")


def main(folder: str, *names: str, ours: bool) -> int:
    """Create the environments; return the number of failures."""
    wanted = [
        name
        for name, vendor in VENDORS.items()
        if not names or name in names or ("short" in names and vendor.short)
    ]
    made = {name: _environment(Path(folder), name) for name in wanted}
    if ours:
        with tempfile.TemporaryDirectory() as built:
            wheel = str(_wheel(Path(built)))
            for environment in {each for each in made.values() if each is not None}:
                _pip(environment, wheel)
                _pip(environment, "--no-deps", "--force-reinstall", wheel)
    left_out = [name for name, environment in made.items() if environment is None]
    if left_out:
        sys.stdout.write(f"LEFT OUT: {', '.join(left_out)}: not installed (see above)\n")
    return len(left_out)


def _wheel(into: Path) -> Path:
    subprocess.run([UV, "build", "-q", "--wheel", "-o", str(into), str(ROOT)], check=True)
    return next(into.glob("*.whl"))


def _environment(folder: Path, name: str) -> Path | None:
    packages = (*VENDORS[name].packages, *COMMON)
    # Vendors of the same packages share an environment; `name` is a link to it.
    digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]
    environment = folder / digest
    stamp = environment / "stamp"
    if not stamp.exists():
        shutil.rmtree(environment, ignore_errors=True)
        try:
            subprocess.run([UV, "venv", "-q", str(environment)], check=True)
            _pip(environment, *packages)
        except subprocess.CalledProcessError:
            return None
        stamp.touch()
    link = folder / name
    link.unlink(missing_ok=True)
    link.symlink_to(digest)
    return environment


def _pip(environment: Path, *options: str) -> None:
    python = str(environment / "bin" / "python")
    subprocess.run([UV, "pip", "install", "-q", "--python", python, *options], check=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(*[one for one in given if one != "--packages"], ours="--packages" not in given))
