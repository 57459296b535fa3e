"""Options for TensorRT's kernels and timing caches."""

from __future__ import annotations

from polygraphy.cli.backends.trt.kinds import Members
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class TrtTimingOptions(Options):
    """TensorRT Tactics: the kernels that can be chosen, and their measured times."""

    timing_cache: str | None = option(
        "--timing-cache",
        feeds=(
            "CreateConfig.load_timing_cache",
            "EngineFromNetwork.save_timing_cache",
            "EngineBytesFromNetwork.save_timing_cache",
        ),
        writes=True,
        help="Timing cache: loaded if the file exists, and saved after the build.",
    )
    load_timing_cache: str | None = option(
        "--load-timing-cache",
        feeds="CreateConfig.load_timing_cache",
        reads="Timing cache",
        may_be_missing=True,
        help="Timing cache to load. If the file does not exist, the build starts without one.",
    )
    save_timing_cache: str | None = option(
        "--save-timing-cache",
        feeds=("EngineFromNetwork.save_timing_cache", "EngineBytesFromNetwork.save_timing_cache"),
        writes=True,
        help="Timing cache to extend with the times of this build; safe with concurrent builds.",
    )
    error_on_timing_cache_miss: bool = option(
        "--error-on-timing-cache-miss",
        feeds="CreateConfig.error_on_timing_cache_miss",
        help="Fail if a time is missing from the timing cache.",
    )
    disable_compilation_cache: bool = option(
        "--disable-compilation-cache",
        feeds="CreateConfig.disable_compilation_cache",
        help="Exclude compiled code from the timing cache.",
    )
    tactic_sources: tuple[str, ...] | None = option(
        "--tactic-sources",
        feeds="CreateConfig.tactic_sources",
        kind=Members("TacticSource", "SOURCE"),
        help="Libraries that provide tactics, such as cublas cudnn. No libraries are used if the"
        " list is empty.",
    )


@option_group
class TrtTacticOptions(TrtTimingOptions):
    """TensorRT Tactics: the kernels that can be chosen, and their measured times."""

    save_tactics: str | None = option(
        "--save-tactics",
        "--save-tactic-replay",
        feeds="CreateConfig.algorithm_selector",
        writes=True,
        excludes="--load-tactics",
        help="Save the tactic of each layer to a JSON file.",
    )
    load_tactics: str | None = option(
        "--load-tactics",
        "--load-tactic-replay",
        feeds="CreateConfig.algorithm_selector",
        reads="Tactic replay",
        help="Choose the tactics in a saved file.",
    )
    exclude_tactics: str | None = option(
        "--exclude-tactics",
        feeds="CreateConfig.algorithm_selector",
        reads="Tactic replay",
        help="Exclude the tactics in a saved file.",
    )
