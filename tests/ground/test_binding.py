"""Functions that are ports."""

from __future__ import annotations

import pickle

import pytest

from polygraphy.ports import editing, machine, models, reporting, running, storage

PORTS = [running.find_facts, machine.cores, storage.read_text, models.save_model]


@pytest.mark.parametrize("port", PORTS, ids=lambda port: str(port.__name__))
def test_a_port_reaches_other_processes_as_itself(port: object) -> None:
    assert pickle.loads(pickle.dumps(port)) is port


def test_every_port_is_found_where_it_is_declared() -> None:
    for module in (editing, machine, models, reporting, running, storage):
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and callable(value):
                assert value.__qualname__ == name
