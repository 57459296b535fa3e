"""Command lines that run in the process of the tests, because importing a framework takes seconds."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from polygraphy.cli.main import main
from polygraphy.logger import G_LOGGER
from tests.acceptance.conftest import Done


@pytest.fixture
def polygraphy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Return a function that runs a command line in this process."""

    def run(command: str, *, cwd: Path | None = None) -> Done:
        """Run a command line, and return its exit code and output."""
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        if cwd is not None:
            monkeypatch.chdir(cwd)
        with G_LOGGER.preserve(), pytest.raises(SystemExit) as left:
            sys.exit(main())
        reported = capsys.readouterr()
        code = left.value.code or 0
        assert isinstance(code, int)
        assert "Traceback" not in reported.out + reported.err
        return Done(code, reported.out, reported.err)

    return run
