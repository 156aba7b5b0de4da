"""Settings and state: who wins, and what a mistake says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui import paths
from colibri_tui.settings import Settings, State, read_settings, read_state, resolve_options, write_state
from engine import EngineError, EngineOptions
from engine.options import KNOBS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))


def write(text: str | bytes) -> Path:
    path = paths.settings_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def settings(**engine: Any) -> Settings:
    return Settings(Path("settings.toml"), engine)


def refusal(text: str | bytes) -> str:
    path = write(text)
    with pytest.raises(EngineError) as refused:
        read_settings({})
    message = str(refused.value)
    assert message.isprintable()
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_without_a_file_there_are_no_settings() -> None:
    assert read_settings({}) == Settings(paths.settings_path())


def test_a_file_is_read() -> None:
    write("[engine]\nram = 4\ncap = 'auto'\nlearn = false\ntopp = 0.9\n[ui]\ntheme = 'ember'\nascii = true\n")
    found = read_settings({})
    assert found.engine == {"ram": 4.0, "cap": None, "learn": False, "topp": 0.9}
    assert (found.theme, found.profile, found.ascii) == ("ember", None, True)


@pytest.mark.parametrize(("text", "value"), [("", 2.0), ("keep_state = 0", 0.0), ("keep_state = 7.5", 7.5)])
def test_space_for_what_is_kept_of_conversations(text: str, value: float) -> None:
    write(f"[ui]\n{text}\n")
    assert read_settings({}).keep_state == value


def test_another_file_may_be_named(tmp_path: Path) -> None:
    write("[ui]\ntheme = 'wrong'\n")
    other = tmp_path / "other.toml"
    other.write_bytes(b"\xef\xbb\xbf[ui]\r\ntheme = 'right'\r\n")
    assert read_settings({"COLIBRI_CONFIG_PATH": str(other)}).theme == "right"
    with pytest.raises(EngineError, match="missing: no such file, though COLIBRI_CONFIG_PATH names it"):
        read_settings({"COLIBRI_CONFIG_PATH": str(tmp_path / "missing")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[engine]\nraam = 4\n", "[engine] unknown key 'raam'; did you mean 'ram'?"),
        ("[engine]\nroute-trace = 'x'\n", "[engine] unknown key 'route-trace'; did you mean 'route_trace'?"),
        ("[ui]\nTheme = 'x'\n", "[ui] unknown key 'Theme'; did you mean 'theme'?"),
        ('[ui]\n"\\u001b[2J" = 1\n', "[ui] unknown key '\\x1b[2J'; did you mean '"),
        ("[enigne]\nram = 4\n", "unknown table 'enigne'; did you mean 'engine'?"),
        ("ram = 4\n", "unknown table 'ram'"),
        ("engine = 4\n", "engine must be a table"),
        ("[engine]\nram = 'much'\n", "[engine] ram: 'much' is not a number for --ram"),
        ("[engine]\nram = 0\n", "[engine] ram: --ram 0 is outside 0.05..1e+06"),
        ("[engine]\nram = nan\n", "[engine] ram: --ram nan is outside"),
        ("[engine]\ncap = 2.5\n", "[engine] cap: '2.5' is not a whole number for --cap"),
        ("[engine]\ncap = [1]\n", "[engine] cap: [1] is not a value for --cap"),
        ("[engine]\nlearn = 'maybe'\n", "[engine] learn: 'maybe' is not yes or no"),
        ("[ui]\nascii = 1\n", "[ui] ascii: 1 is not true or false"),
        ("[ui]\nkeep_state = true\n", "[ui] keep_state: True is not a number"),
        ("[ui]\nkeep_state = -1\n", "[ui] keep_state: -1 is outside 0..1e+06"),
        ("[ui]\nkeep_state = nan\n", "[ui] keep_state: nan is outside"),
        ("[ui]\ntheme = 1\n", "[ui] theme: 1 is not a text"),
        ("[ui]\nprofile = 'a/b'\n", "[ui] profile: profile name 'a/b': '/' is not allowed"),
        ("[ui\n", "not valid TOML: "),
        ("a = \x01\n", "not valid TOML: "),
        (b"\xff\xfe\n", "not valid TOML: "),
        pytest.param("a = " + "[" * 100_000, "not valid TOML: ", id="deep"),
        pytest.param("#" * (1 << 21), "larger than 1048576 bytes", id="large"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(text: str | bytes, message: str) -> None:
    assert refusal(text).startswith(message)


pieces = st.sampled_from(
    ["[engine]\n", "[ui]\n", "ram = ", "theme = ", "profile = ", "4\n", "'x'\n", "\x1b", "true\n", "[", "é"]
)


@given(st.lists(pieces).map("".join).map(str.encode) | st.binary())
def test_any_file_is_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("settings") / "settings.toml"
    path.write_bytes(data)
    try:
        assert read_settings({"COLIBRI_CONFIG_PATH": str(path)}).path == path
    except EngineError as error:
        message = str(error)
    else:
        message = "fine"
    assert message.isprintable()


def test_nothing_given_means_defaults() -> None:
    options, origins = resolve_options({}, {}, settings())
    assert options == EngineOptions()
    assert set(origins) == {knob.name for knob in KNOBS}
    assert set(origins.values()) == {"default"}


def test_a_flag_wins_over_the_environment_over_the_file() -> None:
    file = settings(ram=1.0, cap=1, context=100, threads=3)
    environ = {"RAM_GB": "2", "CTX": "200", "USAGE_SAVE": "0", "DIRECT": "", "TEMP": "/tmp"}
    options, origins = resolve_options({"ram": "3", "cap": None, "topk": 2}, environ, file)
    assert (options.ram, options.context, options.cap, options.threads) == (3.0, 200, 1, 3)
    assert (options.topk, options.learn, options.direct) == (2, False, True)
    assert origins["ram"] == "flag"
    assert origins["topk"] == "flag"
    assert origins["context"] == "environment"
    assert origins["learn"] == "environment"
    assert origins["cap"] == "settings"
    assert origins["direct"] == "default"


def test_auto_and_no_on_the_command_line_win_too() -> None:
    options, origins = resolve_options(
        {"ram": "auto", "learn": False}, {"RAM_GB": "2", "USAGE_SAVE": "1"}, settings(ram=1.0)
    )
    assert (options.ram, options.learn) == (None, False)
    assert origins["ram"] == origins["learn"] == "flag"


@pytest.mark.parametrize(
    ("flags", "environ", "message"),
    [
        ({"cap": "few"}, {}, "command line: 'few' is not a whole number for --cap"),
        ({"cap": 0}, {}, "command line: --cap 0 is outside 1..65536"),
        ({}, {"RAM_GB": "lots"}, "environment variable RAM_GB: 'lots' is not a number for --ram"),
        ({}, {"TOPP": "2"}, "environment variable TOPP: --topp 2 is outside"),
    ],
)
def test_a_bad_value_names_its_origin(flags: dict[str, Any], environ: dict[str, str], message: str) -> None:
    with pytest.raises(EngineError) as refused:
        resolve_options(flags, environ, settings())
    assert str(refused.value).startswith(message)


def test_a_tilde_in_a_path_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    options, _ = resolve_options({}, {"COLI_USAGE": "~/usage"}, settings())
    assert options.usage is not None
    assert Path(options.usage) == tmp_path / "usage"


def test_state_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"
    assert read_state(path) == State()
    state = State("/models/olmoe", "coding", 7, {"atlas": True, "width": 40})
    write_state(path, State(model="older"))
    write_state(path, state)
    assert read_state(path) == state
    assert sorted(file.name for file in path.parent.iterdir()) == ["state.json", "state.json.lock"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", pytest.param("[" * 100_000, id="deep"), '{"model": 3, "later": true, "layout": []}']
)
def test_a_state_that_is_not_understood_is_a_new_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    assert read_state(path) == State()


def test_what_is_understood_of_a_state_is_used(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"model": "m", "conversation": true, "profile": "chat"}')
    assert read_state(path) == State("m", "chat")


def test_a_state_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=r"state\.json: cannot be written"):
        write_state(tmp_path / "file" / "state.json", State())


def test_none_of_this_loads_the_screen_or_the_compiler() -> None:
    code = (
        "import sys, colibri_tui.settings, colibri_tui.conversations, colibri_tui.profiles\n"
        "assert not {'textual', 'numba', 'llvmlite'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
