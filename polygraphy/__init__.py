"""Run a model in several inference backends, compare what comes out, and find out why it
differs.
"""

from polygraphy.ports.binding import register_resolver

__version__ = "1.0.0.dev0"

register_resolver("polygraphy.wiring")
