"""The command line, run in this process."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from typing import Any

from polygraphy.cli.main import main as polygraphy
from polygraphy.logger import G_LOGGER


def run_diagnose(words: str) -> tuple[int, dict[str, Any], str]:
    """Run `polygraphy diagnose`; return its exit code, its JSON document and other output."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = shlex.split(f"polygraphy diagnose {words} --format json")
    with G_LOGGER.preserve(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = polygraphy()
        except SystemExit as left:
            code = int(left.code or 0)
    try:
        return code, json.loads(out.getvalue()), err.getvalue()
    except ValueError:
        return code, {}, out.getvalue()[-800:] + err.getvalue()[-800:]
