"""Constants are part of saved files and of people's scripts: their values may not change."""

from __future__ import annotations

from polygraphy import constants


def test_values() -> None:
    assert {name: getattr(constants, name) for name in constants.__all__} == {
        "DEFAULT_SEED": 1,
        "DEFAULT_SHAPE_VALUE": 1,
        "LEGACY_KEY_PREFIX": "__polygraphy_encoded_",
        "LEGACY_TYPE_MARKER": "polygraphy_serialized_json_type",
        "MARK_ALL": "mark-all",
        "TAB": " " * 4,
        "TYPE_MARKER": "polygraphy_class",
    }
