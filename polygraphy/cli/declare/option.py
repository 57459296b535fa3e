"""Options of the command line, each declared once, as a typed field of a frozen class; which of
them were given on one command line, and the calls that they feed.

Parser, help, completion, documentation and the way back from a value to a command line all derive
from the declaration::

    @option_group
    class DataOptions(Options):
        '''Data Loader: generate or load the input data.'''

        seed: int | None = option("--seed", kind=Integer(minimum=0), help="Seed of the first
            iteration.", otherwise="1")

A field's default is the value of an option that the user left out. Its kind says how words become a
value, and back. Where a row names no kind, it follows from the annotation: a ``bool`` is a flag, a
``str`` one text, a ``tuple`` of them one or more, called PATH if the row reads or writes files; a
``tuple`` without None is empty by default. Other packages may make an attrs class of a group, with
`attrs.frozen`; their rows name kinds and defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import attr
import attrs
from attrs.exceptions import FrozenInstanceError

from polygraphy.cli.declare.errors import BadValue, warn_of_idle_flags, were_mentioned
from polygraphy.cli.declare.kinds import Flag, Kind, Text, Texts
from polygraphy.codegen.signatures import SIGNATURES
from polygraphy.codegen.source import Call, Source, Step

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Return a decorator that does nothing at run time; it is for type checkers."""
        return lambda function: function


G = TypeVar("G", bound="Options")
_METADATA = "polygraphy.option"


class Option:
    """The declaration of one option or positional argument."""

    __slots__ = (
        "as_",
        "constant",
        "default",
        "excludes",
        "feeds",
        "flags",
        "help",
        "is_plain",
        "kind",
        "may_be_missing",
        "name",
        "needs",
        "otherwise",
        "reads",
        "writes",
    )

    def __init__(
        self,
        flags: tuple[str, ...],
        kind: Kind | None,
        help: str,
        default: Any,
        *,
        feeds: tuple[str, ...] = (),
        as_: Any = None,
        reads: str | None = None,
        may_be_missing: bool = False,
        otherwise: str = "",
        constant: str = "",
        writes: bool = False,
        excludes: tuple[str, ...] = (),
        needs: tuple[str, ...] = (),
    ) -> None:
        """Set the declaration; see `option`."""
        self.flags = flags
        self.kind = kind or Text()
        self.is_plain = kind is None
        self.help = help
        self.default = default
        self.feeds = feeds
        self.as_ = as_
        self.reads = reads
        self.may_be_missing = may_be_missing
        self.otherwise = otherwise
        self.constant = constant
        self.writes = writes
        self.excludes = excludes
        self.needs = needs
        self.name = ""

    @property
    def is_positional(self) -> bool:
        """Return whether the option is an argument without a flag."""
        return not self.flags

    @property
    def label(self) -> str:
        """Return the name of the option for messages."""
        return "/".join(self.flags) or self.name

    @property
    def spelling(self) -> str:
        """Return the spelling of the option in messages:
        the first long flag, or the argument as in the help."""
        long = (flag for flag in self.flags if flag.startswith("--"))
        return next(long, self.kind.metavar)

    @property
    def default_text(self) -> str:
        """Return the default as text: from the row, else its own default, else that of the argument
        that it feeds; empty if it is not worth mentioning."""
        if self.otherwise or isinstance(self.kind, Flag) or self.is_positional:
            return self.otherwise
        from polygraphy.codegen.signatures import SIGNATURES

        split = (target.rpartition(".") for target in self.feeds)
        fed = (SIGNATURES[name].arguments[argument] for name, _, argument in split)
        for default in (self.default, *fed):
            if isinstance(default, (str, int, float, tuple)) and default not in ("", ()):
                return " ".join(self.kind.unparse(default))
        return ""

    @property
    def full_help(self) -> str:
        """Return the help, with the default at its end."""
        default = self.default_text
        return f"{self.help.removesuffix('.')} (default: {default})." if default else self.help

    def argv(self, value: Any) -> list[str]:
        """Return the command-line words that set the option to this value.
        The result is empty for the default."""
        if value == self.default:
            return []
        words = self.kind.unparse(value)
        return self.kind.command_line(self.flags, words)


class Options:
    """Base class of groups of options; the first line of a group's docstring is ``Title:
    description``."""

    _rows: tuple[Option, ...] = ()

    def __init__(self, *first: Any, **values: Any) -> None:
        """Set the given options; the others have their defaults."""
        names = [row.name for row in self._rows]
        unknown = values.keys() - set(names[len(first) :])
        if unknown or len(first) > len(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}, each once")
        vars(self).update(zip(names, first), **values)

    def __setattr__(self, name: str, value: Any) -> None:
        """Raise AttributeError, because groups are immutable."""
        raise FrozenInstanceError

    def __eq__(self, other: object) -> bool:
        """Return whether a group has the same class and equal options."""
        return type(other) is type(self) and _option_values(other) == _option_values(self)

    def __hash__(self) -> int:
        """Return a hash that equal groups share."""
        return hash((type(self), _option_values(self)))

    def __repr__(self) -> str:
        """Return the class name with the options that differ from their defaults."""
        rows = (row for row in self._rows if getattr(self, row.name) != row.default)
        values = (f"{row.name}={getattr(self, row.name)!r}" for row in rows)
        return f"{type(self).__name__}({', '.join(values)})"


def _option_values(group: Options) -> tuple[Any, ...]:
    """Return the values of all options of a group, in order."""
    return tuple(getattr(group, row.name) for row in group._rows)


@dataclass_transform(frozen_default=True)
def option_group(cls: type[G]) -> type[G]:
    """Return a decorator that makes a group of a class with option fields,
    which also inherits options. It is faster than attrs, because a command has dozens of
    groups."""
    own_values = {name: vars(cls)[name].metadata[_METADATA] for name in cls.__annotations__}
    for name, row in own_values.items():
        row.name = name
        _complete(row, cls.__annotations__[name])
        setattr(cls, name, row.default)
    cls._rows = (*(row for row in cls._rows if row.name not in own_values), *own_values.values())
    return cls


def _complete(row: Option, annotation: str) -> None:
    """Set the missing kind and default of a row according to its annotation."""
    is_tuple = annotation.startswith("tuple[")
    if row.is_plain:
        metavar = "PATH" if row.reads is not None or row.writes else "TEXT"
        plain = Texts(metavar) if is_tuple else Text(metavar)
        row.kind = Flag() if annotation == "bool" else plain
    if row.default is None and isinstance(row.kind, Flag):
        row.default = False
    if row.default is None and is_tuple and not annotation.endswith("| None"):
        row.default = ()


def option(
    *flags: str,
    help: str,
    kind: Kind | None = None,
    default: Any = None,
    feeds: str | tuple[str, ...] = (),
    as_: Any = None,
    reads: str | None = None,
    may_be_missing: bool = False,
    otherwise: str = "",
    constant: str = "",
    writes: bool = False,
    excludes: str | tuple[str, ...] = (),
    needs: str | tuple[str, ...] = (),
) -> Any:
    """Return the declaration of an option; without flags, of a positional argument.
    Equal options of several groups are declared once.

    Args:
        flags: the option's spellings, the preferred one first.
        help: its purpose, in one or two sentences; ends with a period.
        kind: the conversion of words to a value; by default that of the annotation.
        default: the value if the option is not set: by default, False for a flag, empty for a tuple
            that is never None, else None.
        feeds: the argument of a published name that receives the value, as in
            ``CreateConfig.sparse_weights``, or several such arguments.
        as_: the value of the argument if the flag is used (default: True).
        reads: the kind of files that the option names, for messages.
        may_be_missing: whether these files need not exist.
        otherwise: the effect if the option is not set, for the help. The default of the argument
            that it feeds need not be repeated.
        constant: the name of the constant in a program that uses the value more than once.
        writes: whether it names files that are written; no two options may name the same one.
        excludes: flags of options, in their first spelling, that cannot be combined with it.
        needs: flags of options, in their first spelling. Without at least one of them, the option
            has no effect.
    """
    if default is None and isinstance(kind, Flag):
        default = False
    declared = Option(
        flags,
        kind,
        help,
        default,
        feeds=(feeds,) if isinstance(feeds, str) else feeds,
        as_=as_,
        reads=reads,
        may_be_missing=may_be_missing,
        otherwise=otherwise,
        constant=constant,
        writes=writes,
        excludes=(excludes,) if isinstance(excludes, str) else excludes,
        needs=(needs,) if isinstance(needs, str) else needs,
    )
    return attr.ib(default=default, metadata={_METADATA: declared})


def options_of(group: type[Options]) -> Sequence[Option]:
    """Return the declarations of a group, in order."""
    if not attrs.has(group):
        return group._rows
    options: list[Option] = []
    for attribute in attrs.fields(group):  # Another package derived an attrs class.
        row: Option = attribute.metadata[_METADATA]
        row.name = attribute.name
        options.append(row)
    return options


def with_values(group: G, **values: Any) -> G:
    """Return a group with other values of some options."""
    return type(group)(**{**vars(group), **values})


def argv_of(group: Options) -> list[str]:
    """Return the command-line words that recreate a group."""
    words: list[str] = []
    for declared in options_of(type(group)):
        words += declared.argv(getattr(group, declared.name))
    return words


class Rest(Texts):
    """All words that follow."""

    nargs = "..."

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return all words."""
        if not words:
            raise BadValue("a command must follow")
        return tuple(words)

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the flag and all words."""
        # No `--` is needed, because this option accepts words with a dash.
        return [*flags[:1], *words]


NAMED_RUNNER = "--runner"
"""The flag of a runner with a name: its text has flags of its own, ``NAME='--onnxrt ...'``."""


def flags_in(words: Sequence[str]) -> set[str]:
    """Return the flags of a command line, including those of named runners, and other words that
    look like flags."""
    flags = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
    if NAMED_RUNNER in flags:
        for word, following in zip(words, [*words[1:], ""]):
            flag, equals, text = word.partition("=")
            if flag == NAMED_RUNNER:
                own_words = (text if equals else following).partition("=")[2].split()
                flags |= {name.partition("=")[0] for name in own_words if name.startswith("--")}
    return flags


def split_rest(
    words: Sequence[str], options: Sequence[Option]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the words before an option that takes all remaining words, and those by name.

    Returns:
        The words before the option, and the words after it by its name.
    """
    flags = {
        flag: single_option.name
        for single_option in options
        if isinstance(single_option.kind, Rest)
        for flag in single_option.flags
    }
    for position, word in enumerate(words):
        if word in flags:
            return list(words[:position]), {flags[word]: list(words[position + 1 :])}
    return list(words), {}


def with_options(words: Sequence[str], more: Sequence[str], options: Sequence[Option]) -> list[str]:
    """Return a command line with additional options at its end, or before an option that takes all
    remaining words."""
    if not more:
        return list(words)
    end = len(split_rest(words, options)[0])
    if "--" in words[:end]:
        end = words.index("--")
    return [*words[:end], *more, *words[end:]]


Given = tuple[Options, Option, Any]
"""A group, one of its rows, and the value that is not the row's default."""


class Values:
    """The option groups of one command line, by class; a missing group has its defaults."""

    def __init__(
        self, groups: Mapping[type[Options], Options], nested: Mapping[str, Values] | None = None
    ) -> None:
        """Set the groups, and the options of named runners by name."""
        self._groups = groups
        self.nested = nested or {}

    def __getitem__(self, group: type[G]) -> G:
        """Return a group of options, with defaults if the command lacks it."""
        group_values: Any = self._groups.get(group)
        return group() if group_values is None else group_values

    def replace_groups(self, *groups: Options) -> Values:
        """Return the values with some groups replaced."""
        options = {**self._groups, **{type(group): group for group in groups}}
        return Values(options, self.nested)

    def without(self, *classes: type[Options]) -> Values:
        """Return the values without some groups."""
        groups = {kind: group for kind, group in self._groups.items() if kind not in classes}
        return Values(groups, self.nested)

    def override(self, own_values: Values) -> Values:
        """Return the values, overridden by the values in `own_values` that are not defaults."""
        changes: dict[type[Options], dict[str, Any]] = {}
        for group, row, value in own_values.non_default_options:
            changes.setdefault(type(group), {})[row.name] = value
        groups = (with_values(self[kind], **values) for kind, values in changes.items())
        return self.replace_groups(*groups)

    def __iter__(self) -> Any:
        """Yield the groups."""
        return iter(self._groups.values())

    @cached_property
    def non_default_options(self) -> Sequence[Given]:
        """Return the options that differ from their defaults, in order of declaration."""
        return non_default_options(self._groups.values())


def non_default_options(groups: Iterable[Options]) -> Sequence[Given]:
    """Return the options of some groups that differ from their defaults, in order of
    declaration."""
    if isinstance(groups, Values):
        return groups.non_default_options
    return [
        (group, row, value)
        for group in groups
        for row in options_of(type(group))
        if (value := getattr(group, row.name)) != row.default
    ]


def non_default_flags(
    values: Values, groups: Iterable[type[Options]], *, besides: Iterable[str] = ()
) -> list[str]:
    """Return the spelling of each option of some groups that differs from its default, in order of
    declaration, except those in `besides`."""
    left_out = set(besides)
    return [
        row.spelling
        for wanted in groups
        for group, row, _ in values.non_default_options
        if type(group) is wanted and row.spelling not in left_out
    ]


def non_default_flags_for_calls(values: Iterable[Options], calls: Iterable[str]) -> list[str]:
    """Return the spelling of each option that feeds an argument of some calls and differs from its
    default."""
    wanted = set(calls)
    spellings = (
        row.spelling
        for _, row, _ in non_default_options(values)
        if any(target.rpartition(".")[0] in wanted for target in row.feeds)
    )
    return list(dict.fromkeys(spellings))


def warn_of_needs(values: Values, since: int) -> None:
    """Log options without effect because an option that they need is missing,
    except those already mentioned after the first `since` messages."""
    rows = [row for _, row, _ in values.non_default_options]
    known_flags = {flag for row in rows for flag in row.flags}
    lacking: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.needs and known_flags.isdisjoint(row.needs) and not were_mentioned(row.flags, since):
            lacking.setdefault(row.needs, []).append(row.flags[0])
    for needs, flags in lacking.items():
        warn_of_idle_flags(flags, f" without {' or '.join(needs)}")


def call_of(name: str, values: Iterable[Options], *args: Any, **decided: Any) -> Call:
    """Return a call with the arguments that options feed, in the order of its signature.
    If several rows feed an argument, the last one with a value counts.

    Args:
        name: the published name, a key of `SIGNATURES`.
        values: the options; defaults feed nothing.
        args: positional arguments.
        decided: arguments that no option feeds, or that replace those that one feeds; None omits
            one.
    """
    defaults = SIGNATURES[name].arguments
    fed: dict[str, Any] = {}
    for _, row, value in non_default_options(values):
        for target in row.feeds:
            called, _, argument = target.rpartition(".")
            if called == name:
                given_value = value if row.as_ is None else row.as_
                if given_value != defaults[argument]:
                    fed[argument] = row.kind.argument(given_value)
    return Call(name, args, {**fed, **decided})


def constants_of(values: Iterable[Options], calls: Iterable[Call]) -> tuple[list[Step], list[Call]]:
    """Return the constants for values that feed several calls, and the calls with these names."""
    constants, listed = [], list(calls)
    for _, row, value in non_default_options(values):
        named = {target.rpartition(".")[::2] for target in row.feeds if row.constant}
        fed = [call for call in listed for name, given_name in named if name == call.name]
        if len(fed) < 2:
            continue
        constants.append(Step(row.constant, row.kind.argument(value)))
        for name, argument in named:
            listed = [
                call.of(**{argument: Source(row.constant)}) if call.name == name else call
                for call in listed
            ]
    return constants, listed
