"""Fuzzing with coverage feedback: ``python tests/fuzz/fuzz_atheris.py TARGET [libFuzzer options]``.

Needs ``pip install atheris``.  Targets are those of `fuzz_targets`; ``-max_total_time=60`` ends a run
after a minute.  Not collected by pytest.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))
with atheris.instrument_imports(include=["ragmeter"]):
    import fuzz_targets


def main() -> None:
    """Fuzz the target named on the command line."""
    names = {target.__name__: target for target in fuzz_targets.TARGETS}
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"name one of: {', '.join(names)}")
    target = names[sys.argv.pop(1)]

    def one(data: bytes) -> None:
        with fuzz_targets.within(data):
            target(data)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
