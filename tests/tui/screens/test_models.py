"""Choosing a model, and building the demo."""

import sys
import threading
from types import ModuleType

import pytest

from colibri_tui import paths
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
    await until(lambda: isinstance(app.screen, ModelsScreen) and app.screen._folders)
    return app.screen


async def test_a_first_start_offers_the_demo_with_licence_and_size(scripted, demo):
    app = scripted(model=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(app)
        assert screen._folders == [demo_folder()]
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
        assert [folder.name for folder in screen._folders] == ["demo", "olmoe"]
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
