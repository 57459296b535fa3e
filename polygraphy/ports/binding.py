"""Another address of `polygraphy.binding`, beside the ports that are bound."""

from polygraphy.binding import Binding, Unbound, bind, register_resolver, resolve

__all__ = ["Binding", "Unbound", "bind", "register_resolver", "resolve"]
