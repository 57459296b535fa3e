"""What programs look like, and that they run."""

from __future__ import annotations

import ast
import os
import re
import shutil
from pathlib import Path

import pytest

from polygraphy.codegen.render import format_source
from tests.codegen.commands import COMMANDS, RENDERED, rendered
from tests.support import identity_files, replays
from tests.support.forked import ForkServer

GOLDEN = Path(__file__).parent / "golden"
SAVED_ACCURACY = Path(__file__).parents[1] / "data" / "nvidia" / "accuracy_quantile.json"
TEXTS = {**{name: command for name, (command, _) in COMMANDS.items()}, **RENDERED}
ONE_BY_ONE = """
import runpy, sys, traceback
from polygraphy.logger import G_LOGGER

folder, *names = sys.argv[1:]
for name in names:
    code, sys.argv[:] = 0, [f"{folder}/{name}.py"]
    with G_LOGGER.preserve():
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    print(f"\\nENDED {name} {code}", flush=True)
"""
"""A process for each program takes longer than the program."""
UPDATE = os.environ.get("POLYGRAPHY_UPDATE_GOLDEN") == "1"


@pytest.mark.parametrize("name", TEXTS)
def test_the_program_reads_as_it_should(name: str) -> None:
    """Formatting changes its looks alone. `make lint` checks that golden files are formatted."""
    source = rendered(TEXTS[name])
    program = format_source(source)
    path = GOLDEN / f"{name}.py"
    if UPDATE:
        path.write_text(program, encoding="utf-8")
    assert program == path.read_text(encoding="utf-8")
    assert ast.dump(ast.parse(program)) == ast.dump(ast.parse(source))


def test_there_is_no_golden_file_without_its_command() -> None:
    assert {path.stem for path in GOLDEN.glob("*.py")} == set(TEXTS)


@pytest.mark.slow
def test_every_program_runs(tmp_path: Path, fork_server: ForkServer) -> None:
    identity_files.build(tmp_path)
    shutil.copy(SAVED_ACCURACY, tmp_path / "accuracy.json")
    replays.write(tmp_path / "replays" / "bad" / "0.json", {"conv": replays.algorithm(2)})
    done = fork_server.run(["-c", ONE_BY_ONE, str(GOLDEN), *COMMANDS], tmp_path, merged=True)
    parts = re.split(r"^ENDED (\w+) (\d+)\n", done.out, flags=re.M)
    codes = dict(zip(parts[1::3], map(int, parts[2::3])))
    for said, name, code in zip(parts[::3], parts[1::3], codes.values()):
        assert code == COMMANDS[name][1], f"{name}:\n{said}"
        assert "Traceback" not in said
    assert codes.keys() == COMMANDS.keys(), parts[-1]
    assert "Creating ONNX-Runtime" in (tmp_path / "run.log").read_text(encoding="utf-8")
    assert sorted(path.name for path in (tmp_path / "inputs").iterdir()) == [
        "0000000000.json",
        "0000000001.json",
    ]
