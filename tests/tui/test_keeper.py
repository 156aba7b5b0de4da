"""What the engine holds of conversations, in files: kept when left, taken up again, few enough, wiped when asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from colibri_tui.engine_link import EngineError, EngineHistory, EngineReady, EngineState, LinkState
from colibri_tui.journal import Row, known
from colibri_tui.keeper import Keeper
from engine.events import State
from engine.wire import Between, Forget, LoadState, SaveState, UseHistory
from tests.tui.scripted_link import READY
from tests.tui.test_conductor import Play

MOST = 1000


class Desk:
    """A keeper with an engine that notes what it was told."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.folder, self.told, self.asked = folder, [], []  # type: ignore[var-annotated]
        self.there = True
        self.keeper = Keeper(self, folder, most, self.told.append)

    def between_turns(self, command: Between) -> bool:
        if self.there:
            self.asked.append(command)
        return self.there

    def path(self, number: int, key: str = "model") -> Path:
        return self.folder / key / f"{number}.state"

    def keep(self, number: int, nbytes: int, key: str = "model", age: int = 0) -> Path:
        path = self.path(number, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(nbytes))
        os.utime(path, (2_000_000_000 - age, 2_000_000_000 - age))
        return path

    def settle(self) -> None:
        self.keeper._files.submit(int).result()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "state")


def test_kept_when_left_and_taken_up_when_come_back_to(desk: Desk) -> None:
    desk.keeper.began("model", known(1))
    desk.keeper.leave()
    assert desk.asked == [SaveState(str(desk.path(1)), MOST)]
    desk.keeper.began("model", known(2))
    desk.keeper.take_up("model", known(1))
    assert len(desk.asked) == 1, "there is no file yet"
    desk.keep(1, 10)
    desk.keeper.take_up("model", known(1))
    assert desk.asked[1:] == [LoadState(str(desk.path(1)))]


def test_only_what_has_changed_is_kept(desk: Desk) -> None:
    desk.keep(1, 10)
    desk.keeper.leave()
    desk.keeper.take_up("model", known(1))
    desk.keeper.leave()
    assert desk.asked == [LoadState(str(desk.path(1)))]
    desk.keeper.began("model", known(1))
    desk.keeper.leave()
    desk.keeper.leave()
    assert len(desk.asked) == 2


def test_what_the_engine_holds_is_not_loaded(desk: Desk) -> None:
    desk.keep(1, 10)
    desk.keeper.began("model", known(1))
    desk.keeper.take_up("model", known(1))
    assert desk.asked == []
    desk.keeper.lost()
    desk.keeper.take_up("model", known(1))
    assert desk.asked == [LoadState(str(desk.path(1)))]


def test_without_an_engine_it_is_tried_again_later(desk: Desk) -> None:
    desk.keep(1, 10)
    desk.there = False
    desk.keeper.take_up("model", known(1))
    desk.keeper.began("model", known(1))
    desk.keeper.leave()
    desk.there = True
    desk.keeper.leave()
    assert desk.asked == [SaveState(str(desk.path(1)), MOST)]


def test_a_conversation_that_has_no_number_yet_is_not_kept(desk: Desk) -> None:
    desk.keeper.began("model", Row(Future()))
    desk.keeper.leave()
    assert desk.asked == []


def test_nothing_is_kept_if_a_person_wants_that_but_for_restarts(tmp_path: Path) -> None:
    desk = Desk(tmp_path, most=0)
    desk.keeper.began("model", known(1))
    desk.keeper.leave()
    assert desk.asked == []
    desk.keeper.leave(restarts=True)
    assert desk.asked == [SaveState(str(desk.path(1)), None)]
    file = desk.keep(1, 10)
    desk.keeper.heard(State("saved", str(file), 3, 10))
    desk.settle()
    assert file.exists()
    desk.keeper.heard(State("loaded", str(file), 3, 10))
    desk.settle()
    assert not file.exists()


def test_what_was_used_least_recently_makes_room(desk: Desk) -> None:
    files = [desk.keep(1, 400, age=30), desk.keep(2, 400, "other", age=10), desk.keep(3, 400, age=20)]
    new = desk.keep(4, 500, age=40)
    desk.keeper.heard(State("saved", str(new), 3, 500))
    desk.settle()
    assert [file.exists() for file in files] == [False, True, True]
    assert new.exists(), "it has just been saved"


def test_what_killed_writers_left_goes_too(desk: Desk) -> None:
    saved = desk.keep(1, 10)
    old, young = saved.with_name("2.state.aaaa.new"), saved.with_name("2.state.bbbb.new")
    old.touch()
    young.touch()
    os.utime(old, (1, 1))
    desk.keeper.heard(State("saved", str(saved), 3, 10))
    desk.settle()
    assert (old.exists(), young.exists()) == (False, True)


def test_taking_up_is_told_and_counts_as_use(desk: Desk) -> None:
    used, other = desk.keep(1, 600, age=2_000_000_000), desk.keep(2, 600, age=1_900_000_000)
    desk.keeper.heard(State("loaded", str(used), 1234, 85_000_000))
    desk.settle()
    assert desk.told == ["Context restored: 1,234 tokens, 85.0 MB."]
    assert (used.exists(), other.exists()) == (True, False)


def test_a_full_disk_is_told_once(desk: Desk) -> None:
    full = State("saved", "/1.state", error="/1.state: no space left")
    desk.keeper.heard(full)
    desk.keeper.heard(full)
    assert desk.told == ["/1.state: no space left."]
    desk.keeper.heard(State("saved", str(desk.keep(1, 10)), 3, 10))
    desk.keeper.heard(full)
    assert len(desk.told) == 2


def test_a_file_that_is_refused_is_told_and_the_conversation_read_again(desk: Desk) -> None:
    file = desk.keep(1, 10)
    desk.keeper.take_up("model", known(1))
    desk.keeper.heard(State("loaded", str(file), error=f"{file}: damaged"))
    assert desk.told == [f"{file}: damaged."]
    desk.keeper.began("model", known(1))
    desk.keeper.leave()
    assert isinstance(desk.asked[-1], SaveState)


def test_wiped_with_all_models_also_what_is_being_saved(desk: Desk) -> None:
    mine, other = [desk.keep(1, 10), desk.keep(1, 10, "other")], desk.keep(11, 10)
    desk.keeper.began("model", known(1))
    desk.keeper.forget(1)
    desk.keeper.leave()
    desk.settle()
    assert desk.asked == [Forget()]
    assert [file.exists() for file in (*mine, other)] == [False, False, True]
    late = desk.keep(1, 10)
    desk.keeper.heard(State("saved", str(late), 3, 10))
    desk.settle()
    assert not late.exists()


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """A conductor whose engine is ready, and has answered once."""
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    stage = Play(tmp_path)
    assert stage.conductor.open(stage.folder)
    stage.conductor._arriving = None
    stage.ready()
    stage.conductor.submit("hello")
    stage.text("hi")
    stage.done()
    stage.conductor.session.conversation.result()
    yield stage
    stage.journal.close()


def kept(stage: Play) -> Path:
    """Where the conversation that is shown is kept; makes a file there."""
    number = stage.conductor.session.conversation.result()
    path = Path(os.environ["COLIBRI_TUI_HOME"], "data", "state", stage.conductor.model.key, f"{number}.state")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


class TestConductor:
    async def test_leaving_keeps_and_coming_back_takes_up(self, play: Play) -> None:
        path = kept(play)
        play.conductor.new()
        assert play.link.between == [SaveState(str(path), 2_000_000_000)]
        play.conductor.submit("else")
        play.text("x")
        play.done()
        first = (await play.conductor.ask(lambda store: store.list()))[-1]
        await play.conductor.resume(first)
        assert play.link.between[-1] == LoadState(str(path))
        play.hear(EngineState(0, State("loaded", str(path), 20, 1000)))
        assert play.view.told[-1][0] == "Context restored: 20 tokens, 1.00 kB."

    async def test_before_what_was_typed_meanwhile_is_sent(self, play: Play) -> None:
        path = kept(play)
        play.conductor.open(play.folder)
        play.conductor.submit("typed while it loads")
        await play.conductor.come_back()
        assert len(play.link.asked) == 1
        play.link.between.clear()
        play.ready()
        assert play.link.between == [LoadState(str(path))]
        assert len(play.link.asked) == 2

    def test_the_end_of_the_program(self, play: Play) -> None:
        path = kept(play)
        play.conductor.close("")
        assert play.link.between == [SaveState(str(path), 2_000_000_000)]

    def test_a_reset_wipes(self, play: Play) -> None:
        path = kept(play)
        play.conductor.reset()
        play.conductor._keeper._files.submit(int).result()
        assert play.link.between == [Forget()]
        assert not path.exists()
        assert play.view.lines == []

    async def test_deleting_wipes(self, play: Play) -> None:
        path = kept(play)
        await play.conductor.delete()
        play.conductor._keeper._files.submit(int).result()
        assert not path.exists()
        assert play.link.between == [Forget()]

    @pytest.mark.parametrize(("name", "text", "value"), [("ram", "6.5", 6.5), ("cap", "12", 12), ("context", "99", 99)])
    def test_memory_changes_while_running(self, play: Play, name: str, text: str, value: float) -> None:
        path = kept(play)
        play.conductor.reconfigure(name, text)
        assert play.link.between == [SaveState(str(path), None)]
        assert getattr(play.link.started[-1][1], name) == value
        assert "the conversation stays" in play.view.told[-1][0]
        play.ready()
        assert play.link.between[-1] == LoadState(str(path))
        assert play.view.lines == ["hello", "hi"]
        play.conductor.reconfigure(name, "auto")
        assert getattr(play.link.started[-1][1], name) is None

    def test_changes_add_up(self, play: Play) -> None:
        play.conductor.reconfigure("ram", "6")
        play.ready()
        play.conductor.reconfigure("cap", "12")
        assert (play.link.started[-1][1].ram, play.link.started[-1][1].cap) == (6.0, 12)

    def test_what_cannot_be_had_is_undone(self, play: Play) -> None:
        play.conductor.reconfigure("ram", "6")
        play.ready()
        play.conductor.reconfigure("ram", "0.1")
        play.link.state = LinkState.DEAD
        play.hear(EngineError(0, "the budget of 0.10 GB is too small", fatal=True))
        assert play.link.started[-1][1].ram == 6.0
        assert [told[0] for told in play.view.told[-2:]] == [
            "the budget of 0.10 GB is too small", "The engine restarts as it was before.",
        ]  # fmt: skip
        play.link.state = LinkState.DEAD
        play.hear(EngineError(0, "something else", fatal=True))
        assert len(play.link.started) == 4, "it is tried once"

    @pytest.mark.parametrize("text", ["much", "-1", "0", "nan", "1e99"])
    def test_what_is_no_value_is_told(self, play: Play, text: str) -> None:
        play.conductor.reconfigure("ram", text)
        assert len(play.link.started) == 1
        assert play.view.told[-1][1] == "warning"
        assert play.view.told[-1][0].startswith("/ram: ")

    def test_what_holds_is_told(self, play: Play) -> None:
        play.conductor.reconfigure("ram", "")
        assert play.view.told[-1][0] == "The engine has a memory budget of its own choice; /ram changes it."
        play.conductor.reconfigure("context", "16384")
        play.hear(EngineReady(0, READY))
        play.conductor.reconfigure("context", "")
        assert play.view.told[-1][0] == "The engine has a context of 16,384 tokens; /context changes it."

    def test_another_profile_is_learned_into_without_a_restart(self, play: Play) -> None:
        play.conductor.use_profile("coding")
        history = play.conductor.model.options.history
        assert "coding" in history
        assert play.link.between == [UseHistory(history, True)]
        assert len(play.link.started) == 1
        assert play.conductor.status.profile == play.conductor.session.profile == "coding"
        play.conductor.restart()
        assert play.link.started[-1][1].history == history

    def test_what_was_learned_in_a_profile_is_told(self, play: Play) -> None:
        play.hear(EngineHistory(0, 12_345))
        assert play.view.told[-1][0] == "Learned there so far: 12,345 choices of experts."
        play.hear(EngineHistory(0, 0))
        assert play.view.told[-1][0] == "Learned there so far: nothing yet."

    def test_while_it_loads_the_engine_is_started_with_the_other_profile(self, play: Play) -> None:
        play.conductor.restart()
        play.conductor.use_profile("coding")
        assert "coding" in play.link.started[-1][1].history


def test_what_the_engine_holds_is_known(desk: Desk) -> None:
    assert not desk.keeper.holds("model", known(1))
    desk.keeper.began("model", known(1))
    assert desk.keeper.holds("model", known(1))
    assert not desk.keeper.holds("model", known(2))
    assert not desk.keeper.holds("other", known(1))
    assert not desk.keeper.holds("model", None)
    desk.keeper.lost()
    assert not desk.keeper.holds("model", known(1))


def test_a_conversation_that_is_still_being_read_is_not_held(desk: Desk) -> None:
    path = desk.keep(1, 10)
    desk.keeper.take_up("model", known(1))
    assert not desk.keeper.holds("model", known(1))
    desk.keeper.heard(State("loaded", str(path), 5, 100))
    assert desk.keeper.holds("model", known(1))
