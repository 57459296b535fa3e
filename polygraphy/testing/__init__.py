"""For tests of tools that embed this package, and of adapters of other packages.

The fakes keep what they are given in memory, record how they are used, and are strict where a real
adapter may be lenient. `bind` puts one in place of a port's usual adapter::

    store = MemoryResultStore()
    with bind(ResultStore, store):
        results.save("anywhere")

`check_runner`, `check_loader`, `check_data_types` and `check_result_store` ask of an adapter what
every adapter of its port promises. `polygraphy.testing.strategies` has data for property tests; it
imports hypothesis.
"""

from polygraphy.adapters import fake
from polygraphy.adapters.fake import *  # noqa: F403
from polygraphy.binding import bind
from polygraphy.testing.suites import (
    check_data_types,
    check_loader,
    check_result_store,
    check_runner,
)

__all__: list[str] = []
__all__ += fake.__all__
__all__ += ["bind", "check_data_types", "check_loader", "check_result_store", "check_runner"]
