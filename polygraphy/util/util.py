"""Another address of `polygraphy.util`, from which scripts import, and of what older versions had."""

from polygraphy.util import *  # noqa: F403
from polygraphy.util.misc import find_in_dict as find_in_dict
