"""The rules of the ONNX specification about operators of `ai.onnx.ml`, and n-grams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from polygraphy.domain.checks.operator_call import ATTRIBUTE, OperatorCall, Violation
from polygraphy.domain.checks.requirements import (
    Rule,
    attribute_rule,
    dim_of,
    wrong_attribute,
    wrong_shape,
    wrong_values,
)


def _length_rule(names: Sequence[str], text: str) -> Rule:
    """Return a rule that requires lists with one element, or one for each feature."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation for a list with a different number of elements."""
        size = dim_of(call, 0, -1)
        for name in names:
            values = call.attributes.get(name)
            if values and size is not None and len(values) not in (1, size):
                yield wrong_attribute(
                    call, name, f"1 or {size} {text} (the input has {size} features)"
                )
                return

    return check


def _equal_lengths_rule(prefix: str, *, of_pairs: bool = False) -> Rule:
    """Return a rule that requires lists of one length: those with a prefix, or keys and values."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation for a list that is not as long as the first one."""
        begins = ("keys_", "values_") if of_pairs else (prefix,)
        lists = {
            name: value
            for name, value in call.attributes.items()
            if name.startswith(begins) and isinstance(value, list) and value
        }
        first = next(iter(lists), "")
        for name, values in lists.items():
            if len(values) != len(lists[first]):
                text = f"as many {name} as {first} ({len(lists[first])})"
                counted = f"it has {len(values)}"
                yield Violation(call.op, text, counted, ATTRIBUTE)
                return

    return check


def _check_imputed(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless an Imputer has values of one data type."""
    names = ("imputed_value_floats", "imputed_value_int64s")
    used_names = [name for name in names if call.attributes.get(name)]
    if len(used_names) != 1:
        actual = "it has both" if used_names else "it has neither"
        yield Violation(call.op, f"either {names[0]} or {names[1]}", actual, ATTRIBUTE)


def _check_linear(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless a linear model has a coefficient for each feature and target."""
    coefficients, size = call.attributes.get("coefficients"), dim_of(call, 0, -1)
    if call.op == "LinearRegressor":
        targets = call.attributes.get("targets", 1)
    else:
        targets = len(call.attributes.get("intercepts") or ())
    if coefficients and size and targets and len(coefficients) < size * targets:
        text = f"{size * targets} coefficients, for {size} features and {targets} outputs"
        yield Violation(call.op, text, f"it has {len(coefficients)}", ATTRIBUTE)


def _check_map(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless a ZipMap has a label for each column."""
    labels = call.attributes.get("classlabels_int64s") or call.attributes.get("classlabels_strings")
    data, size = call.input(0), dim_of(call, 0, -1)
    if labels and data is not None and size is not None and len(labels) != size:
        yield wrong_shape(call, data, f"{len(labels)} columns, one for each label")


def _check_vectors(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless the support vectors have as many features as the input."""
    vectors, size = call.attributes.get("support_vectors"), dim_of(call, 0, -1)
    count = call.attributes.get("n_supports") or sum(call.attributes.get("vectors_per_class") or ())
    if vectors and size and count and len(vectors) != size * count:
        text = f"{count} support vectors of {size} features ({size * count} numbers)"
        yield Violation(call.op, text, f"it has {len(vectors)} numbers", ATTRIBUTE)


def _check_features(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a branch of a tree reads a feature that does not exist."""
    modes = call.attributes.get("nodes_modes") or ()
    features, size = call.attributes.get("nodes_featureids"), dim_of(call, 0, -1)
    if features is None or size is None or len(features) != len(modes):
        return
    read = [feature for feature, mode in zip(features, modes) if mode != "LEAF"]
    bad = [feature for feature in read if not 0 <= feature < size]
    if bad:
        actual = f"nodes_featureids contains {bad[0]}"
        yield Violation(call.op, f"features in [0, {size - 1}]", actual, ATTRIBUTE)


def _check_results(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a leaf adds to a target or class that does not exist."""
    labels = call.attributes.get("classlabels_int64s") or call.attributes.get("classlabels_strings")
    counts = {
        "target_ids": call.attributes.get("n_targets") or 0,
        "class_ids": len(labels or ()),
    }
    for name, count in counts.items():
        ids = call.attributes.get(name) if count else None
        bad = [number for number in ids or () if not 0 <= number < count]
        if bad:
            text = f"{name} in [0, {count - 1}]"
            yield Violation(call.op, text, f"{name} contains {bad[0]}", ATTRIBUTE)


def _check_branches(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a branch of a tree leads to a node that does not exist."""
    trees, ids = (call.attributes.get(f"nodes_{name}") for name in ("treeids", "nodeids"))
    modes = call.attributes.get("nodes_modes")
    if not trees or not ids or not modes or not len(trees) == len(ids) == len(modes):
        return
    nodes = {*zip(trees, ids)}
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        targets = call.attributes.get(name) or ()
        if len(targets) != len(ids):
            continue
        for tree, target, mode in zip(trees, targets, modes):
            if mode != "LEAF" and (tree, target) not in nodes:
                actual = f"{name} contains {target} for tree {tree}"
                yield Violation(call.op, "branches to nodes of the same tree", actual, ATTRIBUTE)
                return


_MODES = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF",
)  # fmt: skip


def _check_categories(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a category is unknown and may not be."""
    data, categories = call.input(0), call.attributes.get("cats_int64s")
    if call.attributes.get("zeros", 1) or not categories or data is None or data.values is None:
        return
    values = np.asarray(data.values)
    bad = values[~np.isin(values, categories)].reshape(-1).tolist()
    if bad:
        yield wrong_values(call, data, "categories of cats_int64s (zeros is 0)", bad)


def _check_grams(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the lengths of a TfIdfVectorizer."""
    low, high = (call.attributes.get(f"{end}_gram_length") for end in ("min", "max"))
    if low is not None and high is not None and not 1 <= low <= high:
        yield wrong_attribute(call, "min_gram_length", f"a min_gram_length in [1, {high}]")
    weights, indices = call.attributes.get("weights"), call.attributes.get("ngram_indexes")
    if weights and indices and len(weights) != len(indices):
        text = f"one weight for each of the {len(indices)} ngram_indexes"
        yield Violation(call.op, text, f"it has {len(weights)}", ATTRIBUTE)


def _check_gram_starts(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a TfIdfVectorizer lacks grams of a length, or they start nowhere."""
    starts, high = call.attributes.get("ngram_counts"), call.attributes.get("max_gram_length")
    if starts is None or high is None:
        return
    pool = call.attributes.get("pool_int64s") or call.attributes.get("pool_strings") or ()
    if len(starts) < high:
        text = f"a max_gram_length of at most {len(starts)}, the number of ngram_counts"
        yield wrong_attribute(call, "max_gram_length", text)
    elif sorted(starts) != [*starts] or not 0 <= starts[0] <= starts[-1] <= len(pool):
        text = f"ascending positions in the pool [0, {len(pool)}] in ngram_counts"
        yield wrong_attribute(call, "ngram_counts", text)


def _check_ensemble(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a TreeEnsemble refers to a node, leaf, feature or target that does not
    exist.
    """
    attributes, size = call.attributes, dim_of(call, 0, -1)
    inner = len(attributes.get("nodes_featureids") or ())
    leaves = len(attributes.get("leaf_targetids") or ())
    limits = [
        ("nodes_featureids", size),
        ("tree_roots", inner),
        ("leaf_targetids", attributes.get("n_targets")),
    ]
    for name in ("true", "false"):
        ids = attributes.get(f"nodes_{name}nodeids") or ()
        are_leaves = attributes.get(f"nodes_{name}leafs") or ()
        if len(ids) != len(are_leaves):
            continue
        for number, is_leaf in zip(ids, are_leaves):
            count = leaves if is_leaf else inner
            if not 0 <= number < count:
                text = f"nodes_{name}nodeids in [0, {count - 1}]"
                yield Violation(call.op, text, f"it contains {number}", ATTRIBUTE)
                return
    for name, limit in limits:
        bad = [
            number
            for number in attributes.get(name) or ()
            if number < 0 or (limit is not None and number >= limit)
        ]
        if bad and (limit is None or limit > 0):
            text = f"{name} of at least 0" if limit is None else f"{name} in [0, {limit - 1}]"
            yield Violation(call.op, text, f"{name} contains {bad[0]}", ATTRIBUTE)
            return


def _check_vectorizer(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation unless a FeatureVectorizer has a number of columns for each input."""
    columns, inputs = call.attributes.get("inputdimensions"), len(call.inputs)
    if columns and len(columns) != inputs:
        text = f"as many inputs as inputdimensions ({len(columns)})"
        yield Violation(call.op, text, f"it has {inputs}", ATTRIBUTE)


_TREES: tuple[Rule, ...] = (
    _equal_lengths_rule("nodes_"),
    attribute_rule("nodes_modes", lambda modes: {*modes} <= {*_MODES}, f"{', '.join(_MODES)}"),
    _check_features,
    _check_branches,
    _check_results,
)

LEARNING_RULES: dict[str, tuple[Rule, ...]] = {
    "FeatureVectorizer": (_check_vectorizer,),
    "LabelEncoder": (_equal_lengths_rule("", of_pairs=True),),
    "LinearClassifier": (_check_linear,),
    "LinearRegressor": (_check_linear,),
    "Imputer": (
        _check_imputed,
        _length_rule(("imputed_value_floats", "imputed_value_int64s"), "imputed values"),
    ),
    "OneHotEncoder": (_check_categories,),
    "SVMClassifier": (_check_vectors,),
    "SVMRegressor": (_check_vectors,),
    "Scaler": (_length_rule(("offset", "scale"), "numbers"),),
    "TfIdfVectorizer": (
        _check_grams,
        _check_gram_starts,
        attribute_rule(
            "max_skip_count", lambda value: value >= 0, "a max_skip_count of at least 0"
        ),
    ),
    "TreeEnsemble": (
        _check_ensemble,
        attribute_rule("n_targets", lambda value: value > 0, "a positive n_targets"),
    ),
    "TreeEnsembleClassifier": _TREES,
    "TreeEnsembleRegressor": _TREES,
    "ZipMap": (_check_map,),
}
"""The rules by operator."""
