"""Which kernels TensorRT may choose, and what it remembers about them."""

from __future__ import annotations

from polygraphy.cli.backends.trt.kinds import Members
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class TrtTimingOptions(Options):
    """TensorRT Tactics: which kernels may be chosen, and what is remembered about them."""

    timing_cache: str | None = option(
        "--timing-cache",
        feeds=(
            "CreateConfig.load_timing_cache",
            "EngineFromNetwork.save_timing_cache",
            "EngineBytesFromNetwork.save_timing_cache",
        ),
        writes=True,
        help="Use this file as timing cache: load it if it exists, and save it after the build.",
    )
    load_timing_cache: str | None = option(
        "--load-timing-cache",
        feeds="CreateConfig.load_timing_cache",
        reads="Timing cache",
        help="Take measured times from this file.",
    )
    save_timing_cache: str | None = option(
        "--save-timing-cache",
        feeds=("EngineFromNetwork.save_timing_cache", "EngineBytesFromNetwork.save_timing_cache"),
        writes=True,
        help="Add what is measured to this file; several builds may do so at once.",
    )
    error_on_timing_cache_miss: bool = option(
        "--error-on-timing-cache-miss",
        feeds="CreateConfig.error_on_timing_cache_miss",
        help="Fail when a time is needed that the timing cache does not have.",
    )
    disable_compilation_cache: bool = option(
        "--disable-compilation-cache",
        feeds="CreateConfig.disable_compilation_cache",
        help="Keep no compiled code in the timing cache.",
    )
    tactic_sources: tuple[str, ...] | None = option(
        "--tactic-sources",
        feeds="CreateConfig.tactic_sources",
        kind=Members("TacticSource", "SOURCE"),
        help="Libraries that tactics may come from, such as cublas cudnn; none without any.",
    )


@option_group
class TrtTacticOptions(TrtTimingOptions):
    """TensorRT Tactics: which kernels may be chosen, and what is remembered about them."""

    save_tactics: str | None = option(
        "--save-tactics",
        "--save-tactic-replay",
        feeds="CreateConfig.algorithm_selector",
        writes=True,
        excludes="--load-tactics",
        help="Save which tactic was chosen for each layer, as JSON.",
    )
    load_tactics: str | None = option(
        "--load-tactics",
        "--load-tactic-replay",
        feeds="CreateConfig.algorithm_selector",
        reads="Tactic replay",
        help="Choose the tactics that such a file names.",
    )
    exclude_tactics: str | None = option(
        "--exclude-tactics",
        feeds="CreateConfig.algorithm_selector",
        reads="Tactic replay",
        help="Do not choose the tactics that such a file names.",
    )
