import pytest

from colibri_tui.chat_settings import ChatSettings, dump, load, setting_text
from engine.errors import EngineError
from engine.text.sampler import Sampling


def test_what_is_set_takes_the_place_of_the_models_own():
    settings = ChatSettings().changed("temperature", "0.2").changed("max_tokens", "50")
    assert settings.sampling(Sampling(temperature=1.0, nucleus=0.8)) == Sampling(50, 0.2, 0.8)
    assert settings.words == ("temperature 0.2", "max tokens 50")


@pytest.mark.parametrize("word", ["auto", "off", "Default"])
def test_a_setting_can_be_given_back(word):
    settings = ChatSettings("be brief", 0.2, seed=3)
    for name in ("system", "temperature", "seed"):
        settings = settings.changed(name, word)
    assert settings == ChatSettings()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("temperature", "warm", "'warm' is not a number"),
        ("temperature", "nan", "outside"),
        ("temperature", "-1", "outside"),
        ("nucleus", "1.5", "outside"),
        ("max_tokens", "0", "less than 1"),
        ("max_tokens", "1.5", "max tokens: '1.5' is not a whole number"),
        ("seed", "-1", "negative"),
    ],
)
def test_what_is_no_value_is_refused(name, text, why):
    with pytest.raises(EngineError, match=why):
        ChatSettings().changed(name, text)


def test_settings_are_kept():
    settings = ChatSettings("You are a bird.", 0.0, 0.5, 100, 7)
    assert load(dump(settings)) == settings
    assert dump(ChatSettings()) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"temperature": "hot", "seed": []}'])
def test_what_cannot_be_read_is_not_set(text):
    assert load(text) == ChatSettings()


def test_what_holds_is_said():
    assert setting_text("nucleus", ChatSettings(), Sampling(nucleus=0.8)) == "Nucleus: the model's own, 0.8."
    assert setting_text("seed", ChatSettings(), None) == "Seed: the model's own."
    assert setting_text("max_tokens", ChatSettings(max_tokens=9), None).startswith("Max tokens 9 in this conversation")
    assert "be brief" in setting_text("system", ChatSettings("be brief"), None)
    assert "/system TEXT" in setting_text("system", ChatSettings(), None)
