"""Running a rendered program in this process."""

from __future__ import annotations

import os

import pytest

from polygraphy.cli.main import execute

VARIABLE = "OPENBLAS_THREAD_TIMEOUT"
PROGRAM = "import os\nraise SystemExit(os.environ.get('OPENBLAS_THREAD_TIMEOUT'))\n"


@pytest.mark.parametrize(("given", "seen"), [(None, "20"), ("26", "26")])
def test_idle_threads_of_openblas_sleep_soon_unless_the_user_says_otherwise(
    given: str | None, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    os.environ.pop(VARIABLE, None)
    if given is not None:
        os.environ[VARIABLE] = given
    with pytest.raises(SystemExit) as end:
        execute(PROGRAM, "run")
    assert end.value.code == seen
