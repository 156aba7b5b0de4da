"""The chat template: messages to the one text that the model was trained on, and that text to ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, EngineError
from .controls import CUT
from .files import one_line, read_object_if_present, read_text
from .reasoning import AnswerReader, style_of
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from jinja2 import Template

FILE = "chat_template.jinja"
_LIMIT = 1 << 20

Message = Mapping[str, Any]
"""`role` and `content`, and whatever else a template understands (`reasoning_content`, `tool_calls`, ...)."""

_REASONING = frozenset({"<think>", "</think>"})
"""Control tokens that an assistant's message may hold: the model wrote them, and templates cut there."""

_REASONING_KEYS = ("reasoning_content", "thinking")
"""What templates call a message's reasoning. One that has no name for it wants none."""

_NO_REASONING = re.compile(r"<think>\s*</think>")

_OPEN_REASONING = re.compile(r"<think>(?!.*</think>)", re.DOTALL)


class ChatTemplate:
    """A model's own template. Made by `load`, or by `from_file` for one that the user brings."""

    def __init__(self, source: str, tokenizer: Tokenizer, origin: str) -> None:
        """Compile `source`; `origin` names it in errors. Raises CheckpointError when it is not a template."""
        import jinja2

        from .sandbox import BoundedEnvironment

        self.origin = origin
        self._tokenizer, self._source = tokenizer, source
        self._reasoning_keys = [key for key in _REASONING_KEYS if re.search(rf"\b{key}\b", source)]
        try:
            self._template: Template = BoundedEnvironment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            reason = one_line(error.message or "")
            raise CheckpointError(f"{origin}, line {error.lineno}: not a chat template: {reason}") from None
        except (RecursionError, MemoryError):
            raise CheckpointError(f"{origin}: the chat template is nested too deeply") from None

    @classmethod
    def load(cls, folder: Path, tokenizer: Tokenizer) -> ChatTemplate | None:
        """Read `chat_template.jinja`, else `chat_template` of `tokenizer_config.json` (of several: "default") or of
        `chat_template.json`, where models that also see keep it.

        Returns None when the model has no template. Raises CheckpointError when it has a broken one.
        """
        path = folder / FILE
        if path.exists():
            return cls.from_file(path, tokenizer)
        config_path = folder / "tokenizer_config.json"
        found = read_object_if_present(config_path).get("chat_template")
        if found is None:
            config_path = folder / "chat_template.json"
            found = read_object_if_present(config_path).get("chat_template")
        if isinstance(found, list):
            named = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}
            found = named.get("default")
        if found is None:
            return None
        if not isinstance(found, str) or len(found) > _LIMIT:
            raise CheckpointError(f"{config_path}: chat_template is not a text of at most {_LIMIT} characters")
        return cls(found, tokenizer, str(config_path))

    @classmethod
    def from_file(cls, path: Path, tokenizer: Tokenizer) -> ChatTemplate:
        """Read a template from a file. Raises CheckpointError when it cannot be read or compiled."""
        return cls(read_text(path, _LIMIT), tokenizer, str(path))

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        **variables: Any,
    ) -> list[int]:
        """Return the ids of a conversation, ready for the model's answer.

        continue_final: the last message is an answer that was cut off; the prompt ends within it, without an end
        marker, and `add_generation_prompt` does not matter.
        variables: what else the template takes, such as `enable_thinking`; control tokens in them are recognised.

        Control tokens are recognised where the template writes them; in what people and tools say they stay text.
        Raises EngineError when the template refuses the conversation (a role it does not know, for instance).
        """
        text = self._render(messages, add_generation_prompt, continue_final, variables)
        return self._tokenizer.encode_rendered(text)

    def render_text(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        **variables: Any,
    ) -> str:
        """Return the text that `render` encodes."""
        return self._tokenizer.unquote(self._render(messages, add_generation_prompt, continue_final, variables))

    def reader(self, prompt: Sequence[int]) -> AnswerReader:
        """Return what tells reasoning and answer apart in the ids that the model adds to a rendered prompt."""
        return AnswerReader(self._tokenizer, prompt, style_of(self._source))

    def _render(
        self, messages: Sequence[Message], add_generation_prompt: bool, continue_final: bool, variables: dict[str, Any]
    ) -> str:
        """Return the text with control spellings of the contents quoted."""
        quoted = [self._quoted(message) for message in messages]
        if not continue_final:
            return self._run(quoted, add_generation_prompt, variables)
        last = quoted[-1] if quoted else {}
        if last.get("role") != "assistant" or not isinstance(last.get("content"), str):
            raise EngineError("there is no cut answer to continue: the last message is not the assistant's text")
        return self._continued(quoted[:-1], last, variables)

    def _continued(self, earlier: list[dict[str, Any]], last: dict[str, Any], variables: dict[str, Any]) -> str:
        """Return the conversation up to the last character of its last message.

        Usually that is the template's own rendering, cut there. Templates that open the answer with more than they
        keep of it later (a reasoning block), or that would close an unfinished reasoning block, are given what the
        model saw when it was cut: its generation prompt and its words.
        """
        content: str = last["content"]
        opened = self._run(earlier, True, variables)
        if reasoning := last.get("reasoning_content"):
            return opened + style_of(self._source).written(opened, reasoning, content)
        closed = self._run([*earlier, {**last, "content": content + CUT}], False, variables)
        kept, cut, _ = closed.rpartition(CUT)
        if (
            not cut
            or not kept.startswith(opened)
            or _OPEN_REASONING.search(content)
            or _NO_REASONING.match(kept, len(opened))  # the template's doing: the model wrote none
        ):
            return opened + content
        return kept

    def _quoted(self, message: Message) -> dict[str, Any]:
        """Return the message with control tokens hidden in everything but its role."""
        keep = _REASONING if message.get("role") == "assistant" else frozenset()

        def quote(value: Any) -> Any:
            match value:
                case str():
                    return self._tokenizer.quote(value, keep)
                case Mapping():
                    return {key: quote(item) for key, item in value.items()}
                case list() | tuple():
                    return [quote(item) for item in value]
                case _:
                    return value

        return {key: value if key == "role" else quote(value) for key, value in message.items()}

    def _named(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the message with its reasoning under the names by which the template asks for it."""
        named = dict(message)
        reasoning = named.pop("reasoning_content", None)
        return {**named, **dict.fromkeys(self._reasoning_keys, reasoning.strip())} if reasoning else named

    def _run(self, messages: list[dict[str, Any]], add_generation_prompt: bool, variables: dict[str, Any]) -> str:
        """Return the template's output. Raises EngineError with the template's own reason when it refuses."""
        output, reason = self._output(messages, add_generation_prompt, variables)
        if output is not None:
            return output
        if messages and messages[0].get("role") == "system":
            without, _ = self._output(messages[1:], add_generation_prompt, variables)
            if without is not None:
                raise EngineError(
                    f"the model's chat template takes no system prompt: {reason} ({self.origin}); leave it out, say it "
                    "in the first message, or give another template with --template FILE"
                )
        raise EngineError(
            f"the model's chat template refuses this conversation: {reason} ({self.origin}); "
            "change the messages, use --raw, or give another template with --template FILE"
        )

    def _output(
        self, messages: list[dict[str, Any]], add_generation_prompt: bool, variables: dict[str, Any]
    ) -> tuple[str | None, str]:
        """Return the template's output or, if it refuses, None and the reason."""
        import jinja2

        from .sandbox import render

        try:
            output = render(
                self._template,
                {
                    **self._tokenizer.special_tokens,
                    "tools": None,
                    "documents": None,
                    **variables,
                    "messages": [self._named(message) for message in messages],
                    "add_generation_prompt": add_generation_prompt,
                },
            )
        except (
            # A template is a program: besides its own errors it can raise what any expression raises.
            jinja2.TemplateError,
            ArithmeticError,
            AttributeError,
            LookupError,
            MemoryError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            return None, one_line(str(error)) or type(error).__name__
        return output, ""
