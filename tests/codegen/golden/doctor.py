#!/usr/bin/env python3
"""Show backends, devices and settings.

polygraphy doctor --log-file doctor.log
"""

from polygraphy import program
from polygraphy.doctor import doctor
from polygraphy.logger import G_LOGGER


def main() -> None:
    doctor()


if __name__ == "__main__":
    G_LOGGER.log_file = "doctor.log"
    program.run(main, banner=False)
