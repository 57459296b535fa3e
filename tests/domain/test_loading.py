from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import MemoryResultStore
from polygraphy.binding import bind
from polygraphy.domain.data.loading import StreamingDataLoader, has_more
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.ports import ResultStore


@pytest.fixture
def store() -> Iterator[MemoryResultStore]:
    with bind(ResultStore, MemoryResultStore()) as bound:
        yield bound


def save(store: MemoryResultStore, path: str, *values: int) -> None:
    with store.writer(path, dict) as writer:
        for value in values:
            writer.add({"x": np.array([value])})


def values(loader: StreamingDataLoader) -> list[int]:
    return [int(feed["x"][0]) for feed in loader]


def test_files_and_folders_follow_each_other(store: MemoryResultStore) -> None:
    save(store, "a.json", 1, 2)
    save(store, "folder", 3)
    save(store, "b.json", 4)
    assert values(StreamingDataLoader(["a.json", Path("folder"), "b.json"])) == [1, 2, 3, 4]
    assert values(StreamingDataLoader("folder")) == [3]
    assert values(StreamingDataLoader(Path("a.json"))) == [1, 2]


def test_can_be_iterated_again(store: MemoryResultStore) -> None:
    save(store, "a.json", 1, 2)
    loader = StreamingDataLoader("a.json")
    assert values(loader) == values(loader) == [1, 2]


def test_making_one_opens_nothing(store: MemoryResultStore) -> None:
    loader = StreamingDataLoader("later.json")
    save(store, "later.json", 5)
    assert values(loader) == [5]


def test_a_missing_first_file_is_reported_before_the_first_iteration(
    store: MemoryResultStore,
) -> None:
    with pytest.raises(FileError, match=r"nothing\.json"):
        iter(StreamingDataLoader(["nothing.json"]))


def test_a_missing_later_file_is_reported_when_its_turn_comes(store: MemoryResultStore) -> None:
    save(store, "a.json", 1)
    feeds = iter(StreamingDataLoader(["a.json", "nothing.json"]))
    assert int(next(feeds)["x"][0]) == 1
    with pytest.raises(FileError, match=r"nothing\.json"):
        next(feeds)


def test_a_file_without_iterations_is_reported(store: MemoryResultStore) -> None:
    store.save([], "empty.json")
    with pytest.raises(FileError, match=r"empty\.json"):
        iter(StreamingDataLoader("empty.json"))


def test_a_store_may_have_nothing_to_yield() -> None:
    class Empty(MemoryResultStore):
        def iterate(self, source: Any, kind: Any) -> Any:
            return iter(())

    with bind(ResultStore, Empty()):
        assert not list(StreamingDataLoader("a"))


def test_later_files_are_opened_late() -> None:
    opened: list[Any] = []

    class Recorder(MemoryResultStore):
        def iterate(self, source: Any, kind: Any) -> Any:
            opened.append(source)
            return iter([{"x": np.array([0])}])

    with bind(ResultStore, Recorder()):
        feeds = iter(StreamingDataLoader(["a", "b"]))
        assert opened == ["a"]
        next(feeds)
        assert opened == ["a"]
        next(feeds)
        assert opened == ["a", "b"]


def test_at_least_one_path_is_needed() -> None:
    with pytest.raises(UsageError, match="No path"):
        StreamingDataLoader([])


def test_folders_may_be_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        StreamingDataLoader(str(tmp_path), allow_dirs=False)
    StreamingDataLoader(str(tmp_path))


def test_as_people_read_it() -> None:
    assert repr(StreamingDataLoader(["a", Path("b")])) == "StreamingDataLoader(['a', 'b'])"


def test_whether_there_is_more_than_the_first_iteration(store: MemoryResultStore) -> None:
    save(store, "one.json", 1)
    save(store, "two.json", 1, 2)

    def more(loader: Any) -> bool:
        rest = iter(loader)
        next(rest)
        return has_more(loader, rest)

    assert not more(StreamingDataLoader("one.json")) and more(StreamingDataLoader("two.json"))
    assert more(StreamingDataLoader(["one.json", "one.json"]))
    assert more([{}, {}]) and not more([{}])
    # A generator may overwrite what it yielded when it is asked for more.
    generator = ({"x": value} for value in (1, 2))
    assert not more(generator) and next(generator) == {"x": 2}
