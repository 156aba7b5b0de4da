"""Choosing a model, and building the demo."""

import sys
import threading
from types import ModuleType

import pytest

from colibri_tui import paths
from colibri_tui.fetching import StoppedError
from colibri_tui.models import demo_folder
from colibri_tui.screens.models import ModelsScreen
from engine.errors import EngineError
from tests.fake_engine import write_model
from tests.tui.screens.conftest import chat, on_screen, until


@pytest.fixture
def demo(monkeypatch):
    """A demo that is built as fast, and fails as often, as a test wants."""
    module = ModuleType("colibri_tui.demo")
    module.DOWNLOAD_BYTES, module.DISK_BYTES = 100_000_000, 150_000_000
    module.LICENCE, module.SOURCE = "Apache-2.0", "a small model"
    module.go_on, module.error = threading.Event(), ""

    def build_demo(folder, progress, wheel=None):
        for done in range(1, 4):
            progress("converting", done, 3)
        module.go_on.wait(10)
        progress("converting", 3, 3)
        if module.error:
            raise EngineError(module.error)
        write_model(folder)

    module.build_demo = build_demo
    monkeypatch.setitem(sys.modules, "colibri_tui.demo", module)
    yield module
    module.go_on.set()


async def shown(app) -> ModelsScreen:
    await until(lambda: isinstance(app.screen, ModelsScreen) and app.screen._entries)
    return app.screen


async def test_a_first_start_offers_the_demo_with_licence_and_size(scripted, demo):
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(app)
        assert [entry.folder for entry in screen._entries if entry.folder] == [demo_folder()]
        await until(lambda: "Apache-2.0" in on_screen(app))
        assert "downloads 100 MB, takes 150 MB on disk" in on_screen(app)
        await pilot.press("escape")
        assert app.screen is chat(app)
        assert "no model" in on_screen(app)


async def test_building_the_demo_and_opening_it(scripted, demo):
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(app)
        await pilot.press("enter")
        await until(lambda: "converting 3/3" in on_screen(app))
        await pilot.press("enter")
        demo.go_on.set()
        await until(lambda: chat(app)._engine.started)
        assert chat(app)._engine.started[0][0] == demo_folder()
        assert app.screen is chat(app)


async def test_giving_up_building(scripted, demo):
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(app)
        await pilot.press("enter")
        await until(lambda: "Esc gives up" in on_screen(app))
        await pilot.press("escape")
        demo.go_on.set()
        await until(lambda: "given up" in on_screen(app))
        assert not demo_folder().exists()


async def test_a_demo_that_cannot_be_built_says_why(scripted, demo):
    demo.error = "pypi.org: no connection; check the network"
    demo.go_on.set()
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(app)
        await pilot.press("enter")
        await until(lambda: "no connection" in on_screen(app))
        await pilot.press("escape")
        assert app.screen is chat(app)


async def test_installed_models_and_any_folder(scripted, demo, tmp_path):
    write_model(demo_folder())
    write_model(paths.models_dir() / "olmoe")
    write_model(tmp_path / "elsewhere")
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(app)
        assert [entry.name for entry in screen._entries if entry.folder] == ["demo", "olmoe"]
        await until(lambda: "ready" in on_screen(app))
        await pilot.press("tab")
        screen.typed.value = str(tmp_path / "nothing")
        await pilot.press("enter")
        await until(lambda: "no model folder or name" in on_screen(app))
        screen.typed.value = str(tmp_path / "elsewhere")
        await pilot.press("enter")
        await until(lambda: chat(app)._engine.started)
        await pilot.press("ctrl+o")
        await shown(app)
        await pilot.press("down", "enter")
        await until(lambda: len(chat(app)._engine.started) == 2)
        assert chat(app)._engine.started[1][0] == paths.models_dir() / "olmoe"


async def test_a_start_with_the_demo_builds_it_first(scripted, demo):
    app = scripted(model=False)
    app._launch = app._launch.__class__(app._launch.settings, "default", demo_folder())
    async with app.run_test(size=(120, 40)):
        await until(lambda: "converting" in on_screen(app))
        demo.go_on.set()
        await until(lambda: chat(app)._engine.started)


async def test_a_model_that_vanished_meanwhile_is_told(scripted, demo):
    folder = write_model(paths.models_dir() / "olmoe")
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(app)
        (folder / "config.json").unlink()
        await pilot.press("down", "enter")
        await until(lambda: "no config.json here any more" in on_screen(app))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Getting a model that goes as far as a test lets it."""

    class Getting:
        def __init__(self):
            self.asked, self.go_on, self.error = [], threading.Event(), ""

        def __call__(self, repo, progress, stop):
            self.asked.append(repo)
            progress("downloading", 500_000_000, 4_000_000_000)
            while not self.go_on.wait(0.02):
                if stop.is_set():
                    raise StoppedError
                progress("downloading", 1_000_000_000, 4_000_000_000)
            if self.error:
                raise EngineError(self.error)
            return write_model(tmp_path / "got")

    getting = Getting()
    monkeypatch.setattr("colibri_tui.screens.models.fetch", getting)
    yield getting
    getting.go_on.set()


async def test_getting_a_model_from_a_hub(scripted, demo, hub):
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(app)
        screen.typed.focus()
        screen.typed.value = "someone/Little-MoE@main"
        await pilot.press("enter")
        await until(lambda: "1.00 GB of 4.00 GB" in on_screen(app))
        assert "Getting someone/Little-MoE@main" in on_screen(app)
        hub.go_on.set()
        await until(lambda: chat(app)._engine.started)
        assert chat(app)._engine.started[0][0].name == "got"


async def test_stopping_a_download_and_going_on(scripted, demo, hub):
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(app)
        screen.typed.focus()
        screen.typed.value = "someone/Little-MoE"
        await pilot.press("enter")
        await until(lambda: "Getting someone" in on_screen(app))
        await pilot.press("escape")
        await until(lambda: "Stopped. Choose it again" in on_screen(app))
        hub.go_on.set()
        await pilot.press("enter")
        await until(lambda: chat(app)._engine.started)
        assert hub.asked == ["someone/Little-MoE"] * 2


async def test_a_download_that_fails_says_why(scripted, demo, hub):
    hub.error = "someone/Little-MoE is gated: open https://huggingface.co/someone/Little-MoE"
    hub.go_on.set()
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(app)
        screen.typed.focus()
        screen.typed.value = "someone/Little-MoE"
        await pilot.press("enter")
        await until(lambda: "is gated" in on_screen(app))
        await pilot.press("escape")
        assert app.screen is chat(app)


async def test_models_worth_getting_are_offered(scripted, demo, hub, monkeypatch):
    monkeypatch.setattr("colibri_tui.screens.model_list.available_memory", lambda: 9e9)
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(app)
        await until(lambda: "get openai/gpt-oss-20b" in on_screen(app))
        assert "13.8 GB on disk" in on_screen(app)
        await pilot.press("down", "enter")
        await until(lambda: hub.asked)
        assert hub.asked[0].startswith("Qwen/")
        hub.go_on.set()
        await until(lambda: chat(app)._engine.started)


async def test_what_each_model_will_do_is_added(scripted, demo, monkeypatch):
    write_model(paths.models_dir() / "olmoe")
    told = {"name": "olmoe", "share": 0.25, "tok_s": 5.26}
    monkeypatch.setattr("colibri_tui.screens.models.forecasts", lambda stop: (said for said in (told,)))
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)):
        await shown(app)
        await until(lambda: "25% of the experts fit into memory, about 5.26 tok/s" in on_screen(app))
