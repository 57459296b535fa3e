"""Version numbers that compare, and requirements such as `numpy>=1.20,<3`."""

from __future__ import annotations

import _operator as operator  # `operator` would double the import time of this module.

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    # Epoch, release without zeros at its end, pre-release, post-release, development release.
    _Key: TypeAlias = "tuple[int, tuple[int, ...], tuple[int, int], int, float]"

__all__ = ["LATEST_VERSION", "Requirement", "Version", "version"]

LATEST_VERSION = "==latest"
"""Version specifier that stands for the newest version that can be installed."""

# The version scheme of PEP 440, appendix B, without the local part. A suffix must match completely:
# `1.0-custom` is not the release candidate `1.0c`.
_PATTERN = r"""
    \s* v? (?:(?P<epoch>\d+)!)? (?P<release>\d+(?:\.\d+)*)
    (?:
        (?: [-_.]? (?P<phase>alpha|a|beta|b|preview|pre|c|rc) [-_.]? (?P<phase_number>\d*) )?
        (?: -(?P<post_number>\d+) | [-_.]? (?P<post>post|rev|r) [-_.]? (?P<post_word_number>\d*) )?
        (?: [-_.]? (?P<dev>dev) [-_.]? (?P<dev_number>\d*) )?
        (?![a-z0-9])
    |
    )
"""
_PHASES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_BEFORE_EVERY_PHASE = (-1, 0)
_AFTER_EVERY_PHASE = (3, 0)
_NO_POST_RELEASE = -1
_NO_DEVELOPMENT_RELEASE = float("inf")
_NOT_A_VERSION = -1


def _comparison_method(compare: Callable[[_Key, _Key], bool]) -> Callable[[Version, object], bool]:
    """Return a method of `Version` that compares it with another version, or an equivalent
    object."""

    def method(self: Version, other: object) -> bool:
        """Return the result of the comparison; NotImplemented for other objects."""
        key = _version_key(other)
        return NotImplemented if key is None else compare(self._key, key)

    return method


class Version(tuple[int, ...]):
    """The numbers of a release, ordered as in PEP 440.

    It is a tuple of the numbers as they were written, `(1, 20)`, and compares with other versions,
    with their texts and with tuples of numbers, which stand for final releases:
    1.0.dev1 < 1.0a2 < 1.0rc1 < 1.0 == 1.0.0 == 1.0+cu12 < 1.0.post1.
    """

    _key: _Key

    def __new__(cls, numbers: Iterable[int] = (), _key: _Key | None = None) -> Version:
        """Return the final release of these numbers."""
        self = super().__new__(cls, numbers)
        self._key = _key or _key_of_release(0, tuple(self))
        return self

    __eq__ = _comparison_method(operator.eq)
    __ne__ = _comparison_method(operator.ne)
    __lt__ = _comparison_method(operator.lt)
    __le__ = _comparison_method(operator.le)
    __gt__ = _comparison_method(operator.gt)
    __ge__ = _comparison_method(operator.ge)

    def __hash__(self) -> int:
        """Return a hash that equal versions share."""
        return hash(self._key)


def version(version_str: str) -> Version:
    """Return the version at the start of `version_str`.

    A local part, and whatever else follows, is ignored. A text that does not start with a version
    gives the empty tuple, which is lower than every version.
    """
    import re

    match = re.match(_PATTERN, version_str, re.VERBOSE | re.IGNORECASE)
    if match is None:
        return Version((), (_NOT_A_VERSION, (), _AFTER_EVERY_PHASE, _NO_POST_RELEASE, 0))

    def number(group: str) -> int:
        """Return a group of the match as a number; 0 if it is missing."""
        return int(match[group] or 0)

    phase, dev = match["phase"], match["dev"]
    has_post = match["post"] is not None or match["post_number"] is not None
    if phase:
        pre = (_PHASES[phase.lower()], number("phase_number"))
    else:
        pre = _BEFORE_EVERY_PHASE if dev and not has_post else _AFTER_EVERY_PHASE
    release = tuple(map(int, match["release"].split(".")))
    key = _key_of_release(
        number("epoch"),
        release,
        pre,
        number("post_number") or number("post_word_number") if has_post else _NO_POST_RELEASE,
        number("dev_number") if dev else _NO_DEVELOPMENT_RELEASE,
    )
    return Version(release, key)


def _key_of_release(
    epoch: int,
    release: tuple[int, ...],
    pre: tuple[int, int] = _AFTER_EVERY_PHASE,
    post: int = _NO_POST_RELEASE,
    dev: float = _NO_DEVELOPMENT_RELEASE,
) -> _Key:
    """Return the sort key of a release; trailing zeros do not count."""
    significant = len(release)
    while significant and release[significant - 1] == 0:
        significant -= 1
    return epoch, release[:significant], pre, post, dev


def _version_key(other: object) -> _Key | None:
    """Return the sort key of a version, its text or a tuple of integers; None for other objects."""
    if isinstance(other, Version):
        return other._key
    if isinstance(other, str):
        return version(other)._key
    if isinstance(other, tuple) and all(isinstance(number, int) for number in other):
        return _key_of_release(0, other)
    return None


_TESTS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Requirement:
    """A module, with its accepted versions.

    Args:
        text: The name of a module, dots included, and version specifiers separated by commas.

    Attributes:
        module: The name of the module.
        specifier: The version specifiers without white space, empty for any version.

    Raises:
        ValueError: A specifier is not an operator out of `==`, `!=`, `<`, `<=`, `>`, `>=` and a
            version without wildcards.
    """

    __slots__ = ("_conditions", "module", "specifier")

    def __init__(self, text: str) -> None:
        """Parse a requirement such as ``onnx>=1.14``."""
        start = next((i for i, char in enumerate(text) if char in "<>=!~"), len(text))
        self.module = text[:start].strip()
        self.specifier = "".join(text[start:].split())
        self._conditions = [
            _condition(part, text)
            for part in self.specifier.split(",")
            if part and part != LATEST_VERSION
        ]

    @property
    def wants_latest(self) -> bool:
        """Return whether the newest version should be installed.
        Any version is accepted meanwhile."""
        return self.specifier == LATEST_VERSION

    @property
    def has_conditions(self) -> bool:
        """Return whether any version is rejected."""
        return bool(self._conditions)

    def accepts(self, installed: str) -> bool:
        """Return whether an installed version is accepted."""
        installed_version = version(installed)
        return all(test(installed_version, wanted) for test, wanted in self._conditions)

    def package(self, name: str | None = None) -> str:
        """Return the requirement for the installer.
        The package has the name of the module, or `name`.
        """
        package = name or self.module.partition(".")[0]
        return package if self.wants_latest else package + self.specifier


def _condition(part: str, text: str) -> tuple[Callable[[Any, Any], bool], Version]:
    """Return the comparison and the version of a specifier; raise an error if it is invalid."""
    sign = part[: len(part) - len(part.lstrip("<>=!~"))]
    wanted = version(part[len(sign) :])
    if sign not in _TESTS or not wanted or part.endswith("*"):
        raise ValueError(
            f"Expected a version specifier such as '>=1.20', found {part!r} in {text!r}; "
            f"the operators are {', '.join(_TESTS)}"
        )
    return _TESTS[sign], wanted
