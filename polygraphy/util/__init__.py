"""Small helpers that scripts use; `polygraphy.util.array` has those about arrays."""

from polygraphy.mod.deferred import deferred_names
from polygraphy.util.files import (
    LockFile,
    NamedTemporaryFile,
    add_file_suffix,
    find_in_dirs,
    get_file_size,
    load_file,
    makedirs,
    sanitize_filename,
    save_file,
)
from polygraphy.util.sequences import (
    check_sequence_contains,
    contains_wildcard,
    default,
    find_str_in_iterable,
    invert_dict,
    invoke_if_callable,
    is_sequence,
    match_keys,
    unique_list,
    unpack_args,
    value_or_from_dict,
)
from polygraphy.util.shapes import (
    is_empty_shape,
    is_shape_dynamic,
    is_valid_shape_override,
    override_dynamic_shape,
    try_match_shape,
    volume,
)

__all__ = [
    "LockFile",
    "NamedTemporaryFile",
    "add_file_suffix",
    "check_sequence_contains",
    "contains_wildcard",
    "default",
    "find_in_dirs",
    "find_str_in_iterable",
    "get_file_size",
    "invert_dict",
    "invoke_if_callable",
    "is_empty_shape",
    "is_sequence",
    "is_shape_dynamic",
    "is_valid_shape_override",
    "load_file",
    "makedirs",
    "match_keys",
    "override_dynamic_shape",
    "sanitize_filename",
    "save_file",
    "try_match_shape",
    "unique_list",
    "unpack_args",
    "value_or_from_dict",
    "volume",
]

__getattr__ = deferred_names(globals(), submodules=("array", "misc", "util"))
