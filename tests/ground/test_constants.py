"""Constants are part of saved files and of people's scripts: their values may not change."""

from __future__ import annotations

import pytest

from polygraphy import config, constants

_SETTINGS = {"AUTOINSTALL_DEPS", "INTERNAL_CORRECTNESS_CHECKS"}


def test_values() -> None:
    assert {
        name: getattr(constants, name) for name in constants.__all__ if name not in _SETTINGS
    } == {
        "DEFAULT_SEED": 1,
        "DEFAULT_SHAPE_VALUE": 1,
        "LEGACY_KEY_PREFIX": "__polygraphy_encoded_",
        "LEGACY_TYPE_MARKER": "polygraphy_serialized_json_type",
        "MARK_ALL": "mark-all",
        "TAB": " " * 4,
        "TYPE_MARKER": "polygraphy_class",
    }


@pytest.mark.parametrize("name", sorted(_SETTINGS))
def test_settings_are_those_of_the_moment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (True, False):
        monkeypatch.setattr(config, name, value)
        assert getattr(constants, name) is value
