"""Iterations, and what is searched with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygraphy.adapters.fake import FunctionCommands
from polygraphy.adapters.fake.runner import FinishedCommand
from polygraphy.application.debug.checks import AskUser, CheckCommand
from polygraphy.application.debug.iterations import Iterations, repeat
from polygraphy.application.debug.precision import find_layers_to_raise
from polygraphy.binding import bind
from polygraphy.domain.errors import (
    BackendError,
    CheckFailedError,
    FileError,
    InconclusiveError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.search import Outcome
from polygraphy.domain.search.check_rules import CommandEnd, Failure
from polygraphy.ports.running import Commands, ask, can_ask
from tests.support.examples import scaled

GOOD, BAD, NEITHER = Outcome.GOOD, Outcome.BAD, Outcome.UNRESOLVED


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answers(*outcomes: Outcome) -> Callable[[], Outcome]:
    left = iter(outcomes)
    return lambda: next(left)


def write(path: str) -> None:
    Path(path).write_text("made")


def test_a_number_of_iterations() -> None:
    iterations = Iterations(answers(GOOD, BAD, NEITHER, GOOD), "a.bin")
    assert repeat(iterations, 4, write) == {GOOD: 2, BAD: 1, NEITHER: 1}
    assert not Path("a.bin").exists()


@pytest.mark.parametrize(("until", "count"), [("good", 1), ("bad", 2)])
def test_until_an_answer(until: str, count: int) -> None:
    iterations = Iterations(answers(GOOD, BAD, GOOD))
    repeat(iterations, until)  # type: ignore[arg-type]
    assert iterations.count == count


@pytest.mark.parametrize("until", [0, -1, "never", 1.5])
def test_what_means_no_end_is_refused(until: object) -> None:
    with pytest.raises(UsageError, match="is invalid"):
        repeat(Iterations(answers()), until)  # type: ignore[arg-type]


def test_files_are_sorted_numbered_and_removed(folder: Path) -> None:
    seen = []

    def check() -> Outcome:
        seen.append(json.loads(Path("info.json").read_text())["iteration"])
        Path("log.txt").write_text(str(len(seen)))
        Path("folder").mkdir()
        Path("folder/inside").touch()
        Path("kept.json").write_text(str(len(seen)))
        return (GOOD, BAD, NEITHER)[len(seen) - 1]

    iterations = Iterations(
        check,
        "a.onnx",
        artifacts=["log.txt", "folder", "missing"],
        artifacts_dir="sorted",
        numbered=["kept.json"],
        iter_info="info.json",
    )

    def make(path: str) -> None:
        for beside in ("", ".data", ".build.json"):
            write(path + beside)

    repeat(iterations, 3, make)
    assert seen == [0, 1, 2]
    for number, name in enumerate(("good", "bad", "unresolved")):
        [log] = (folder / "sorted" / name).glob(f"log_*_N{number}.txt")
        assert log.read_text() == str(number + 1)
        [_inside] = (folder / "sorted" / name).glob(f"folder_*_N{number}/inside")
    assert Path("kept.1.json").read_text() == "2"
    assert {path.name for path in folder.iterdir()} == {
        "sorted", "kept.json", "kept.0.json", "kept.1.json", "kept.2.json",
    }  # fmt: skip


def test_artifacts_of_another_search_stay(folder: Path) -> None:
    for text in ("first", "second"):
        Path("log.txt").write_text(text)
        repeat(Iterations(lambda: GOOD, artifacts=["log.txt"]), 1)
    sorted_files = (folder / "polygraphy_artifacts" / "good").iterdir()
    assert sorted(path.read_text() for path in sorted_files) == ["first", "second"]


@pytest.mark.parametrize("name", ["artifact", "iter_info"])
def test_what_was_there_before_is_not_overwritten(name: str) -> None:
    Path("there").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        Iterations(answers(GOOD), **{name: "there"}).run()  # type: ignore[arg-type]
    assert Path("there").read_text() == "mine"


@pytest.mark.parametrize("place", ["folder", "file.txt/result.onnx"])
def test_a_result_that_cannot_be_written_is_reported_before(folder: Path, place: str) -> None:
    (folder / "folder").mkdir()
    (folder / "file.txt").touch()
    iterations = Iterations(answers(), "a.onnx", results=["new/good.onnx", place])
    with pytest.raises(FileError, match=place):
        iterations.run(write)
    assert sorted(path.name for path in folder.iterdir()) == ["file.txt", "folder"]


def test_a_failed_build_has_failed_and_an_impossible_one_stops() -> None:
    def broken(path: str) -> None:
        raise BackendError("no")

    def impossible(path: str) -> None:
        raise UsageError("never")

    iterations = Iterations(answers(), "a.engine")
    assert iterations.run(broken) is BAD
    assert iterations.run(broken, unmade=NEITHER) is NEITHER
    with pytest.raises(UsageError, match="never"):
        iterations.run(impossible)


def test_a_full_disk_is_no_answer_but_a_flawed_model_is(folder: Path) -> None:
    def full(path: str) -> None:
        raise FileError("No space left on device.")

    def flawed(path: str) -> None:
        raise ModelError("cannot be cut there")

    iterations = Iterations(answers(), "a.onnx", save_replay="replay.json")
    assert iterations.run(flawed, unmade=NEITHER) is NEITHER
    with pytest.raises(FileError, match="No space left"):
        iterations.run(full, unmade=NEITHER)
    assert list(json.loads(Path("replay.json").read_text())) == ["_N0"]


@pytest.mark.parametrize(("until", "count"), [(1, 1), (2, 2), (10, 3), ("good", 3)])
def test_where_nothing_can_be_made_it_ends(until: int, count: int) -> None:
    def broken(path: str) -> None:
        raise BackendError("no GPU")

    iterations = Iterations(answers(), "a.engine")
    with pytest.raises(BackendError, match="no GPU"):
        repeat(iterations, until, broken)
    assert iterations.count == count


def test_a_build_that_fails_now_and_then_is_repeated() -> None:
    made = []

    def flaky(path: str) -> None:
        made.append(path)
        if len(made) < 6:
            raise BackendError("no" if len(made) % 2 else "again no")

    assert repeat(Iterations(answers(GOOD), "a.engine"), 6, flaky)[GOOD] == 1


def test_a_replay_goes_on_where_it_stopped_and_asks_nothing_twice() -> None:
    states = [{"num_nodes": 4}, {"num_nodes": 2}, {"num_nodes": 1}]
    first = Iterations(answers(BAD, GOOD), save_replay="replay.json")
    for state in states[:2]:
        first.run(state=state, suffix="outputs")
    saved = json.loads(Path("replay.json").read_text())
    assert saved["_N1_outputs"] == {
        "state": {"num_nodes": 2},
        "iteration_info": {"iteration": 1},
        "success": True,
        "polygraphy_class": "IterationContext",
    }
    second = Iterations(answers(NEITHER), load_replay="replay.json", save_replay="replay.json")
    found = [second.run(state=state, suffix="outputs") for state in states]
    assert found == [BAD, GOOD, NEITHER]
    third = Iterations(answers(), load_replay="replay.json")
    assert [third.run(state=state, suffix="outputs") for state in states] == found


def test_an_answer_about_something_else_does_not_count() -> None:
    Iterations(answers(BAD), save_replay="replay.json").run(state={"num_nodes": 4})
    iterations = Iterations(answers(GOOD), load_replay="replay.json")
    assert iterations.run(state={"num_nodes": 5, "part": "x"}) is GOOD


def test_after_a_crash_the_iteration_under_way_counts_as_failed() -> None:
    def crash() -> Outcome:
        saved = Path("replay_skip_current.json").read_text()
        Path("seen.json").write_text(saved)
        return GOOD

    Iterations(crash, save_replay="replay.json").run()
    assert not Path("replay_skip_current.json").exists()
    after = Iterations(answers(), load_replay="seen.json")
    assert after.run() is BAD


def test_an_interrupt_leaves_only_what_is_known(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = [GOOD]

    def interrupted() -> Outcome:
        if not left:
            raise KeyboardInterrupt
        return left.pop()

    iterations = Iterations(interrupted, "a.onnx", iter_info="info.json", save_replay="r.json")
    iterations.run(write)
    with pytest.raises(KeyboardInterrupt):
        iterations.run(write)
    assert [path.name for path in folder.iterdir()] == ["r.json"]
    assert "--load-debug-replay r.json" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"_N0": {}}', '{"_N0": {"success": 1}}'])
def test_what_is_no_replay_is_named(text: str) -> None:
    Path("replay.json").write_text(text)
    with pytest.raises(FileError, match=r"replay\.json"):
        Iterations(answers(), load_replay="replay.json").run()


def test_a_command_is_judged_and_reported_its_limit() -> None:
    commands = FunctionCommands(lambda words: 1 if "fail" in words else "fine")
    with bind(Commands, commands):
        assert CheckCommand(["a", "fail"])() is BAD
        assert CheckCommand(["a", "b"])() is GOOD
        assert CheckCommand(["a", "b"], fail_regex=["fi.e"])() is BAD
        assert CheckCommand(["a", "b"], timeout=0)() is BAD
    assert commands.commands[0] == ["a", "fail"]
    with pytest.raises(UsageError, match="empty"):
        CheckCommand([])


@pytest.mark.parametrize(
    ("how", "said"),
    [({}, [3, 124]), ({"fail_codes": [1, 3, 124]}, []), ({"fail_regex": ["x?"]}, [])],
)
def test_a_failure_with_another_exit_code_is_pointed_out_once(
    how: dict[str, list[Any]], said: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    codes = iter([1, 0, 3, 1, 3, 124])
    with bind(Commands, FunctionCommands(lambda words: next(codes))):
        check = CheckCommand(["check"], **how)
        for _ in range(6):
            check()
    reported = [
        line for line in capsys.readouterr().out.splitlines() if "first failure with 1" in line
    ]
    assert [code for code in (1, 3, 124) for line in reported if f"code {code}," in line] == said


class Answers:
    """Answers questions with lines that were known before."""

    def __init__(self, *answers: str) -> None:
        self.asked: list[str] = []
        self._answers = iter(answers)

    def __call__(self, question: str) -> str:
        self.asked.append(question)
        for answer in self._answers:
            return answer
        raise CheckFailedError("Nobody answers.")


def test_a_person_is_asked_until_the_answer_is_understood() -> None:
    questions = Answers("what?", "", "F", "pass", "s")
    with bind(ask, questions):
        assert [AskUser()() for _ in range(3)] == [BAD, GOOD, NEITHER]
        assert len(questions.asked) == 5
        with pytest.raises(CheckFailedError):
            AskUser()()


@pytest.mark.parametrize("artifact", ["polygraphy_debug.onnx", None])
def test_a_person_learns_what_the_question_is_about(artifact: str | None) -> None:
    questions = Answers("p")
    with bind(ask, questions):
        repeat(Iterations(AskUser(), artifact), until=1)
    [asked] = questions.asked
    assert asked.startswith(f"Check {artifact}. Did" if artifact else "Did")


def test_where_nobody_is_there_a_command_decides() -> None:
    check = AskUser(otherwise=CheckCommand(["a"]))
    with bind(Commands, FunctionCommands(lambda words: 1)):
        with bind(can_ask, lambda: False):
            assert check() is BAD
        with bind(can_ask, lambda: True), bind(ask, lambda question: "p"):
            assert check() is GOOD


class Engine:
    """Passes when some layers are raised."""

    def __init__(self, needed: set[str]) -> None:
        self.needed = needed
        self.raised: list[Sequence[str]] = []

    def make(self, path: str, raised: Sequence[str]) -> None:
        write(path)
        self.raised.append(raised)

    def check(self) -> Outcome:
        return GOOD if self.needed <= set(self.raised[-1]) else BAD


@settings(
    deadline=None,
    max_examples=scaled(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(1, 9), st.data())
def test_layers_that_are_needed_are_found(count: int, data: st.DataObject) -> None:
    layers = [f"layer{index}" for index in range(count)]
    needed = data.draw(st.sets(st.sampled_from(layers), max_size=3))
    places = [layers.index(name) for name in needed]
    expected = {
        ("minimal", "forward"): sorted(needed),
        ("bisect", "forward"): layers[: max(places, default=-1) + 1],
        ("linear", "reverse"): layers[min(places, default=count) :],
        ("bisect", "reverse"): layers[min(places, default=count) :],
    }
    for (mode, direction), found in expected.items():
        engine = Engine(needed)
        iterations = Iterations(engine.check, "a.engine")
        assert found == find_layers_to_raise(
            layers, engine.make, iterations, mode=mode, direction=direction
        )
        assert all(list(raised) == sorted(raised, key=layers.index) for raised in engine.raised)


def test_all_layers_may_be_needed_or_not_enough() -> None:
    engine = Engine({"a", "b"})
    found = find_layers_to_raise(["a", "b"], engine.make, Iterations(engine.check, "a.engine"))
    assert found == ["a", "b"]
    engine = Engine({"other"})
    with pytest.raises(InconclusiveError, match="No engine passes"):
        find_layers_to_raise(["a", "b"], engine.make, Iterations(engine.check, "a.engine"))
    with pytest.raises(UsageError, match="no layer"):
        find_layers_to_raise([], engine.make, Iterations(engine.check, "a.engine"))
    with pytest.raises(UnknownNameError, match="best"):
        find_layers_to_raise(["a"], engine.make, Iterations(engine.check, "a"), mode="best")


def check_that_ends(*ends: Any, command: str = "polygraphy run", **how: Any) -> CheckCommand:
    """Return a check whose command ends with these codes and texts, one after another."""
    turns = iter(ends)
    with bind(Commands, _Scripted(turns)):
        check = CheckCommand(command.split(), **how)
    check._turns = turns  # type: ignore[attr-defined]
    return check


class _Scripted:
    def __init__(self, turns: Iterator[Any]) -> None:
        self._turns = turns

    def prepare(self, command: Sequence[str]) -> None:
        """Nothing has to be."""

    def start(self, command: Sequence[str], **how: Any) -> FinishedCommand:
        code, output = next(self._turns)
        return FinishedCommand(CommandEnd(code, output))


def outcomes(check: CheckCommand, count: int) -> list[Outcome]:
    with bind(Commands, _Scripted(check._turns)):  # type: ignore[attr-defined]
        return [check() for _ in range(count)]


@pytest.mark.parametrize(
    ("command", "code"),
    [("polygraphy run", 2), ("/usr/bin/polygraphy run", 2), ("python3 -m polygraphy run", 2)]
    + [(command, code) for command in ("sh -c x", "polygraphy run") for code in (126, 127)],
)
def test_a_check_that_cannot_run_is_no_failure(command: str, code: int) -> None:
    broken = (code, "[I] RUNNING\n[!] Model m.onnx does not exist.\n[E] FAILED | ...")
    with pytest.raises(UsageError, match=r"Model m\.onnx does not exist"):
        outcomes(check_that_ends(broken, command=command), 1)
    with pytest.raises(UsageError):
        outcomes(check_that_ends(broken, command=command, fail_codes=[1]), 1)
    with pytest.raises(UsageError):
        outcomes(check_that_ends(broken, command=command, fail_regex=["other"]), 1)
    for how in ({"fail_codes": [code]}, {"fail_regex": ["not exist"]}):
        assert outcomes(check_that_ends(broken, command=command, **how), 1) == [Outcome.BAD]
    ignored = check_that_ends(broken, command=command, ignored_codes=[code])
    assert outcomes(ignored, 1) == [Outcome.GOOD]


def test_of_other_programs_2_is_a_failure_and_of_ours_3_is() -> None:
    assert outcomes(check_that_ends((2, ""), command="cmp a b"), 1) == [Outcome.BAD]
    assert outcomes(check_that_ends((3, "[!] no kernel")), 1) == [Outcome.BAD]


def test_what_a_working_check_does_not_understand_is_unresolved() -> None:
    check = check_that_ends((1, ""), (2, "[!] Input 'x' does not exist."), (0, ""))
    expected = [Outcome.BAD, Outcome.UNRESOLVED, Outcome.GOOD]
    assert outcomes(check, 3) == expected


NO_KERNEL = (
    "[!] ONNX Runtime could not load the model: Could not find an implementation for Cos(7) node"
    " with name '{}'. Unsupported operator: no provider in use implements it."
)
NO_ARRAY = "[!] ONNX Runtime could not run the model: No corresponding Numpy type for Tensor Type."


def test_a_reduction_does_not_slip_to_another_failure() -> None:
    check = check_that_ends(
        (3, NO_KERNEL.format("/model/layers.0/cos")),
        (3, NO_ARRAY),
        (3, NO_KERNEL.format("c1")),
        (1, "FAILED"),
        (-11, ""),
        (0, ""),
    )
    check.hold_to_first_failure()
    bad, other, good = Outcome.BAD, Outcome.UNRESOLVED, Outcome.GOOD
    assert outcomes(check, 6) == [bad, other, bad, other, other, good]
    check = check_that_ends((3, NO_KERNEL.format("a")), (3, NO_ARRAY), fail_codes=[3])
    check.hold_to_first_failure()
    assert outcomes(check, 2) == [bad, bad]
    raised = [
        (1, f"Traceback (most recent call last):\n  File\n{kind}: {text}")
        for kind, text in (("AssertionError", "a"), ("AssertionError", "b"), ("KeyError", "a"))
    ]
    check = check_that_ends(*raised, command="python check.py")
    check.hold_to_first_failure()
    assert outcomes(check, 3) == [bad, bad, other]


@given(name=st.text(min_size=1, max_size=20), number=st.integers())
def test_names_and_numbers_do_not_make_another_failure(name: str, number: int) -> None:
    name = repr(name.replace("'", "").replace("\n", ""))

    def failure(name: str, number: int) -> Failure:
        text = f"[!] Node {name}: the shapes {{{number},3}} and [{number}] do not agree at {number}"
        return Failure.of(CommandEnd(3, text), is_ours=True)

    assert failure(name, number).is_like(failure("'x'", 0))


def failure(code: int = 1, **outputs: float | None) -> Failure:
    return Failure.of(CommandEnd(code, ""), is_ours=True, outputs=outputs)


NAN = float("nan")


@pytest.mark.parametrize(
    ("first", "other", "is_like"),
    [
        (failure(y=0.5), failure(t1=0.1), True),
        (failure(y=0.5), failure(t1=NAN), False),
        (failure(y=0.5), failure(t1=float("inf")), True),
        (failure(y=NAN), failure(t1=0.1), False),
        (failure(y=NAN), failure(t1=NAN, t2=0.1), True),
        (failure(y=0.5, z=None), failure(z=0.1), False),
        (failure(y=0.5, z=None), failure(z=0.1, t1=0.1), True),
        (failure(y=0.5, z=NAN), failure(t1=0.1), True),
        (failure(y=0.5), failure(), False),
        (failure(), failure(t1=NAN), True),
        (failure(y=0.5), failure(3, y=0.5), False),
    ],
)
def test_a_difference_is_no_nan_and_an_output_that_passed_is_no_culprit(
    first: Failure, other: Failure, is_like: bool
) -> None:
    assert other.is_like(first) is is_like
    assert Failure.from_facts(json.loads(json.dumps(first.facts()))).is_like(first)
    assert other.is_like(Failure.from_facts(json.loads(json.dumps(first.facts())))) is is_like


def test_a_failure_that_comes_and_goes_needs_several_runs() -> None:
    assert outcomes(check_that_ends((0, ""), (1, "")), 1) == [GOOD]
    assert outcomes(check_that_ends((0, ""), (1, ""), (0, ""), runs=3), 1) == [BAD]
    assert outcomes(check_that_ends((0, ""), (125, ""), (0, ""), runs=3), 1) == [NEITHER]
    assert outcomes(check_that_ends((0, ""), (0, ""), (1, ""), runs=2), 1) == [GOOD]


def test_what_each_check_wrote_is_kept_and_old_logs_are_removed() -> None:
    Path("logs").mkdir()
    for number in range(4):
        Path(f"logs/{number:02}.log").write_text("old")
    check = check_that_ends((0, "first"), (1, "second"), command="a b")
    with bind(Commands, _Scripted(check._turns)):  # type: ignore[attr-defined]
        repeat(Iterations(check, logs="logs"), 2)
    kept = {path.name: path.read_text() for path in Path("logs").iterdir()}
    assert kept == {"00.log": "first", "01.log": "second"}


def test_two_searches_do_not_write_to_one_folder_of_logs() -> None:
    check = check_that_ends((0, ""), (1, ""), (0, ""))
    with bind(Commands, _Scripted(check._turns)):  # type: ignore[attr-defined]
        first = Iterations(check, logs="logs")
        assert first.run() == GOOD
        with pytest.raises(UsageError, match="Another search is running and writes to logs"):
            Iterations(check, logs="logs").run()
        assert first.run() == BAD
        first.finish()
        assert Iterations(check, logs="logs").run() == GOOD


def test_the_console_has_few_lines_whatever_the_number_of_iterations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = iter(range(500, 0, -1))
    iterations = Iterations(lambda: BAD)
    for size in sizes:
        iterations.run(state={"num_nodes": size})
    iterations.finish()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 12
    assert "nodes" in lines[0]
    assert "Finished 500 iteration(s)" in lines[-1]
    assert "Not shown: 491" in lines[-1]


def test_a_replay_knows_the_failure_to_which_others_are_held() -> None:
    ends: list[tuple[int, str]] = [(1, ""), (3, "[!] other")]

    def search(load: str | None, ends: list[tuple[int, str]]) -> list[Outcome]:
        check = check_that_ends(*ends)
        with bind(Commands, _Scripted(check._turns)):  # type: ignore[attr-defined]
            iterations = Iterations(check, load_replay=load, save_replay="replay.json")
            iterations.hold_to_first_failure()
            return [iterations.run(state={"num_nodes": size}) for size in (2, 1)]

    assert search(None, ends) == [BAD, NEITHER]
    replay = json.loads(Path("replay.json").read_text())
    del replay["_N1"]
    Path("replay.json").write_text(json.dumps(replay))
    assert search("replay.json", ends[1:]) == [BAD, NEITHER]


def test_of_several_jobs_none_is_reported_its_number() -> None:
    with pytest.raises(UsageError, match="in parallel"):
        Iterations(lambda: GOOD, jobs=2, iter_info="info.json")
