"""Runs programs one after the other, each in a fork of an interpreter that has imported the large
packages that they share; from this one, nothing.

    python forked.py FOLDER PROGRAM ...

writes a line of JSON for each: its exit code, and what it wrote.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["run_programs"]


def run_programs(paths: Sequence[Path], folder: Path) -> Iterator[tuple[int, str]]:
    """Run programs in a folder; yield exit code and output of each."""
    words = [sys.executable, __file__, str(folder), *map(str, paths)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            code, text = json.loads(line)
            yield code, text


def main(folder: str, *paths: str) -> None:
    """Run programs; see above."""
    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    os.chdir(folder)
    for path in paths:
        with tempfile.TemporaryFile() as output:
            pid = os.fork()
            if pid == 0:
                _run(path, output.fileno())
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            output.seek(0)
            text = output.read().decode(errors="replace")
        sys.stdout.write(json.dumps([code, text]) + "\n")
        sys.stdout.flush()


def _run(path: str, output: int) -> NoReturn:
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv[:] = [path]
        sys.path[0] = str(Path(path).parent)
        runpy.run_path(path, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
