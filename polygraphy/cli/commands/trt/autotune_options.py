"""How it is found out which plugins make a model quicker."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.declare.kinds import Choice, Integer, Number, Text
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.tolerances import absolute_tolerance, relative_tolerance

_CONFIG = "config.yaml"


class _ConfigPath(Text):
    """The path of a YAML file; without a word, ``config.yaml``."""

    def __init__(self) -> None:
        super().__init__("PATH", nargs="?")

    def parse(self, words: Sequence[str]) -> str:
        return words[0] if words else _CONFIG


@option_group
class TuningPluginOptions(Options):
    """Plugin Code: what TensorRT runs."""

    plugin_libraries: tuple[str, ...] = option(
        "--plugin-libraries", reads="Library", help="Shared libraries with the plugins."
    )
    python_plugins: tuple[str, ...] = option(
        "--python-plugins",
        reads="Script",
        help="Python files that register plugins with TensorRT when they are run.",
    )


@option_group
class TuningConfigOptions(Options):
    """Matches: the parts that plugins could compute."""

    save_config_yaml: str | None = option(
        "--save-config-yaml",
        writes=True,
        kind=_ConfigPath(),
        help="Save what matched to a YAML file: PATH, or config.yaml.",
    )
    load_config_yaml: str | None = option(
        "--load-config-yaml",
        reads="File of plugins",
        help="Take the parts from a YAML file that plugin match has written.",
    )
    skip_autotuning: bool = option(
        "--skip-autotuning",
        help="Only find what matches and save it, to config.yaml unless --save-config-yaml says.",
    )


@option_group
class TuningOptions(Options):
    """Search: which combinations are tried."""

    autotune_mode: str | None = option(
        "--autotune-mode",
        kind=Choice("greedy", "exhaustive"),
        help="greedy adds one part after the other and keeps each that helps; exhaustive tries"
        " every combination.",
        feeds="autotune_plugins.mode",
    )
    max_combinations: int | None = option(
        "--max-combinations",
        kind=Integer(minimum=1),
        help="How many combinations exhaustive tries at most.",
        feeds="autotune_plugins.max_combinations",
    )
    threshold: float | None = option(
        "--threshold",
        kind=Number(minimum=0),
        help="By which share of its latency the model has to become quicker for exhaustive to end.",
        feeds="autotune_plugins.threshold",
    )
    rtol: float | None = relative_tolerance(
        Number(minimum=0), of="the model without plugins", otherwise="1e-3"
    )
    atol: float | None = absolute_tolerance(Number(minimum=0), otherwise="1e-3")
    no_timing_cache: bool = option(
        "--no-timing-cache",
        excludes=("--timing-cache", "--load-timing-cache", "--save-timing-cache"),
        help="Let each build measure for itself, as it does unless --timing-cache is given.",
    )
