"""``python -m polygraphy`` is the command line."""

import os
import sys

# ``-m`` puts the current folder in front of the import path, even if this package is elsewhere.
try:
    _named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    _needed = {os.path.abspath(path) for path in (*_named, f"{__file__}/../..")}  # noqa: PTH100
    if sys.path[:1] == [os.getcwd()] and sys.path[0] not in _needed:  # noqa: PTH109
        del sys.path[0]
except FileNotFoundError:
    pass  # The current folder was removed.

from polygraphy.cli.main import main

sys.exit(main())
