"""``python -m polygraphy`` is the command line."""

import sys

from polygraphy.cli.main import main

sys.exit(main())
