from __future__ import annotations

import re
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.content import Content

from colibri_tui.render.highlight import MAX_HIGHLIGHT, highlight
from colibri_tui.render.inline import MAX_INLINE, inline
from colibri_tui.render.markdown import code_blocks, markdown
from colibri_tui.render.marks import Mark
from colibri_tui.render.rows import Layout
from colibri_tui.render.table import MIN_COLUMN, column_widths
from tests.tui.render.drawing import drawn, shown


def marks(content: Content) -> dict[str, set[str]]:
    """Return the marks on each marked piece of text."""
    found: dict[str, set[str]] = {}
    for start, end, style in content.spans:
        if isinstance(style, str):
            found.setdefault(content.plain[start:end], set()).add(style)
    return found


class TestInline:
    def test_emphasis_code_and_strike(self) -> None:
        (line,) = inline("a **b `c`** *d* ~~e~~")
        assert line.plain == "a b c d e"
        assert marks(line) == {"b c": {Mark.STRONG}, "c": {Mark.CODE}, "d": {Mark.EMPHASIS}, "e": {Mark.STRIKE}}

    def test_inner_styles_come_after_outer_ones_so_that_they_win(self) -> None:
        (line,) = inline("**a *b* c**")
        assert [span.style for span in line.spans] == [Mark.STRONG, Mark.EMPHASIS]

    @pytest.mark.parametrize(
        ("source", "text"),
        [
            ("[name](https://a.b/c)", "name (https://a.b/c)"),
            ('[name](https://a.b "why")', "name (https://a.b “why”)"),
            ("<https://a.b>", "https://a.b"),
            ("[https://a.b](https://a.b)", "https://a.b"),
            ("![alt](x.png)", "image: alt (x.png)"),
            ("see https://a.b/c, then", "see https://a.b/c, then"),
            ("[text][1] and [1]: https://a.b", "[text][1] and [1]: https://a.b"),
        ],
    )
    def test_links_show_where_they_go(self, source: str, text: str) -> None:
        assert [line.plain for line in inline(source)] == [text]

    def test_web_addresses_open_in_terminals_that_can(self) -> None:
        (line,) = inline("[a](https://a.b) https://c.d [e](ftp://f.g)")
        links = {s.style.link for s in line.spans if not isinstance(s.style, str)}
        assert links == {"https://a.b", "https://c.d"}

    def test_a_newline_is_a_newline(self) -> None:
        assert [line.plain for line in inline("a\nb  \nc\\\nd")] == ["a", "b", "c", "d"]

    def test_html_is_text(self) -> None:
        assert inline("<b>x</b> <script>")[0].plain == "<b>x</b> <script>"

    def test_entities_cannot_bring_back_control_characters(self) -> None:
        assert inline("&#x202e;abc &amp;")[0].plain == "\ufffdabc &"

    def test_a_wall_of_text_is_shown_as_it_is(self) -> None:
        source = "*a* " * MAX_INLINE
        assert inline(source)[0].plain == source


class TestBlocks:
    def test_paragraphs_and_headings(self) -> None:
        assert shown("# One\ntext\n## Two\n\nmore") == ["One", "", "text", "", "Two", "", "more"]

    def test_heading_levels_differ_without_colour(self) -> None:
        blocks = markdown("# a\n## b\n### c\n#### d")
        spans = [row.text.spans[0].style for block in blocks for row in block.rows(20) if row.text]
        assert spans == [Mark.H1, Mark.H2, Mark.H3, Mark.H4]

    def test_lists_nest_and_wrap_under_their_text(self) -> None:
        source = "- one two three four\n  - five\n    - six\n10. ten\n11. eleven"
        assert shown(source, 12) == ["• one two", "  three four", "  ◦ five", "    ‣ six", "", "10. ten", "11. eleven"]

    def test_numbers_count_on_whatever_was_typed(self) -> None:
        assert shown("3. a\n3. b\n9. c") == ["3. a", "4. b", "5. c"]

    def test_items_stand_apart_where_the_source_does(self) -> None:
        assert shown("- a\n- b\n\n- c\n\n  d") == ["• a", "• b", "", "• c", "", "  d"]

    def test_a_list_of_another_kind_stands_apart(self) -> None:
        assert shown("- a\n* b\n1. c") == ["• a", "", "• b", "", "1. c"]

    def test_an_empty_item_keeps_its_bullet(self) -> None:
        assert shown("-\n- a") == ["•", "• a"]

    def test_a_task_has_its_box_as_bullet(self) -> None:
        assert shown("- [ ] a\n- [x] b\n- c") == ["[ ] a", "[x] b", "• c"]

    def test_quotes_nest(self) -> None:
        assert shown("> a\n>\n> - b\n>> c") == ["│ a", "│", "│ • b", "│ │ c"]

    def test_code_has_its_language_above(self) -> None:
        assert shown("```py title=x\nx = 1\n```", 30) == ["── py title=x ──────── copy ──", "x = 1", "─" * 30]

    def test_what_a_fence_says_is_never_cut_off(self) -> None:
        assert shown("```a very long title\nx\n```", 12) == [
            " copy ──".rjust(12, "─"),
            "a very long",
            "title",
            "x",
            "─" * 12,
        ]

    def test_the_head_of_code_knows_what_to_copy(self) -> None:
        rows = [row for block in markdown("```\na\n\tb\n```") for row in block.rows(40)]
        assert rows[0].code == "a\n\tb"

    def test_code_is_folded_with_a_mark_that_is_not_copied(self) -> None:
        layout = Layout(8)
        layout.update(markdown("```\nabcdefghij klm\n12345678\n```"))
        assert [drawn(line) for line in layout.lines[1:-1]] == ["abcdef", "↪ ghij k", "↪ lm", "12345678"]
        assert layout.rows[1].text.plain == "abcdefghij klm"

    def test_code_in_a_list_is_indented_but_its_text_is_not(self) -> None:
        layout = Layout(30)
        layout.update(markdown("1. a\n   ```\n   x\n     y\n   ```"))
        assert [row.text.plain for row in layout.rows] == ["a", "", "x", "  y", ""]
        assert layout.rows[2].first == (("   ", ""),)

    def test_an_open_fence_has_no_foot(self) -> None:
        assert shown("```c\nint x;")[1:] == ["int x;"]

    def test_indented_code(self) -> None:
        assert shown("    a\n      b")[1:3] == ["a", "  b"]

    def test_tabs_in_code_are_expanded(self) -> None:
        assert shown("```\na\tb\n\tc\n```")[1:3] == ["a   b", "    c"]

    def test_rules(self) -> None:
        assert shown("a\n\n---\nb", 5) == ["a", "", "─────", "", "b"]

    def test_deep_nesting_leaves_half_the_width_to_the_text(self) -> None:
        lines = shown("> " * 30 + "some words", 20)
        assert "some words" in " ".join(line.replace("│", "").replace("…", "").strip() for line in lines)

    @pytest.mark.parametrize("marker", [">", "> ", "- ", "1. ", "> - "])
    def test_what_is_nested_too_deeply_to_be_read_is_shown_as_it_is(self, marker: str) -> None:
        assert "the text" in " ".join("\n".join(shown(marker * 70 + "the text", 200)).split())

    def test_control_characters_never_get_through(self) -> None:
        source = "\x1b]0;x\x07 `\x1b` [a](http://b/\x1b)\n```\x1b\n\x9b\n```\n| \x1b |\n|---|\n"
        assert not [c for line in shown(source) for c in line if ord(c) < 32 or 127 <= ord(c) < 160]


class TestTables:
    SOURCE = dedent("""\
        | name | count | note |
        |:-----|------:|:----:|
        | a    | 1     | x    |
        | bb   | 22    | *yy* |
        """)

    def test_columns_are_aligned(self) -> None:
        assert shown(self.SOURCE) == [
            "name │ count │ note",
            "─────┼───────┼─────",
            "a    │     1 │  x",
            "bb   │    22 │  yy",
        ]

    def test_wide_characters_are_aligned(self) -> None:
        assert shown("| 名 | b |\n|---|---|\n| a | c |") == ["名 │ b", "───┼──", "a  │ c"]

    def test_cells_wrap_when_the_table_is_too_wide(self) -> None:
        source = "| key | value |\n|--|--|\n| a | one two three four |\n| b | five |"
        assert shown(source, 18) == [
            "key │ value",
            "────┼─────────────",
            "a   │ one two",
            "    │ three four",
            "────┼─────────────",
            "b   │ five",
        ]

    def test_a_table_too_narrow_for_its_columns_becomes_records(self) -> None:
        source = "| first name | last name | age |\n|--|--|--|\n| Ada Augusta | Lovelace | 36 |\n| Alan | Turing | 41 |"
        assert shown(source, 16) == [
            "first name: Ada",
            "Augusta",
            "last name:",
            "Lovelace",
            "age: 36",
            "",
            "first name: Alan",
            "last name:",
            "Turing",
            "age: 41",
        ]

    def test_cells_beyond_the_last_column_are_not_lost(self) -> None:
        assert shown("| a | b |\n|--|--|\n| 1 | x|y | z |")[-1] == "1 │ x | y | z"

    def test_a_head_alone(self) -> None:
        assert shown("| a | b |\n|--|--|") == ["a │ b", "──┼──"]

    @given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(1, 120))
    def test_widths_fit_and_only_wide_columns_give_way(self, natural: list[int], room: int) -> None:
        widths = column_widths(natural, room)
        if widths is None:
            assert sum(min(max(n, 1), MIN_COLUMN) for n in natural) > room
            return
        assert sum(widths) <= room
        shrunk = [w for w, n in zip(widths, natural, strict=True) if w < max(n, 1)]
        if shrunk:
            assert max(widths) - min(shrunk) <= 1
            assert sum(widths) == room


class TestHighlight:
    def test_marks_follow_the_language(self) -> None:
        first, *_ = highlight("def f(x): return 'a' + 1 # no", "python")
        found = marks(first)
        assert found["def"] == {Mark.KEYWORD}
        assert found["f"] == {Mark.FUNCTION}
        assert found["'a'"] == {Mark.STRING}
        assert found["# no"] == {Mark.COMMENT}

    def test_a_string_over_lines_is_a_string_on_each(self) -> None:
        lines = highlight("'''a\n\nb'''", "python")
        assert [line.plain for line in lines] == ["'''a", "", "b'''"]
        assert Mark.STRING in {span.style for span in lines[2].spans}

    @pytest.mark.parametrize("language", ["", "no-such-language", "text"])
    def test_unknown_languages_are_plain(self, language: str) -> None:
        assert [line.spans for line in highlight("def f():\n  x", language)] == [[], []]

    @given(st.text(st.sampled_from("ab(){}\"'\\#/*\n <>=;:$`%"), max_size=60))
    @settings(max_examples=40)
    def test_no_lexer_changes_the_text(self, code: str) -> None:
        for language in ("python", "c", "js", "html", "bash", "yaml", "diff", "pycon"):
            assert "\n".join(line.plain for line in highlight(code, language)) == code

    def test_only_the_first_part_of_very_long_code_is_coloured(self) -> None:
        code = "x = 1\n" * MAX_HIGHLIGHT
        lines = highlight(code, "python")
        assert "\n".join(line.plain for line in lines) == code
        assert lines[0].spans
        assert not lines[-2].spans


class TestCodeBlocks:
    def test_fences_are_returned_as_they_were_written(self) -> None:
        source = "a\n```make\nx:\n\techo\n```\n- b\n  ~~~\n  c\n\n  ~~~\n```\nopen"
        assert code_blocks(source) == ["x:\n\techo", "c\n", "open"]

    def test_text_without_fences_has_none(self) -> None:
        assert code_blocks("`a` and\n\n    indented") == []


WORD = st.integers(0, 999).map(lambda number: f"w{number}w ")
BLOCKS = ["- ", "  - ", "1. ", "> ", "# ", "## ", "```", "~~~", "```py\n", "---\n", "===\n", "[ ] ", "    ", "\t"]
TABLES = ["| ", "|\n", "|--|--|\n", "| a | b |\n|--|--|\n"]
SPANS = ["`", "**", "*", "_", "~~", "![", "](", ")", "[", "]", "**b**", "[t](u)", "<b>", "<!-- ", "-->", "&", "\\"]
OTHER = ["\n", "\n\n", " ", "中文", "🚀", "\x1b[0m", ": ", "\r\n", "'", '"', "$"]
MARKUP = st.sampled_from([*BLOCKS, *TABLES, *SPANS, *OTHER])
DOCUMENT = st.lists(WORD | MARKUP, max_size=40)


@given(DOCUMENT, st.integers(24, 90))
@settings(max_examples=120, deadline=None)
def test_every_word_of_any_document_is_shown(pieces: list[str], width: int) -> None:
    text = re.sub(r"\n[ │]*↪ ", "", "\n".join(shown("".join(pieces), width)))
    joined = "".join(text.split())
    for piece in pieces:
        if piece.startswith("w"):
            assert piece.strip() in joined


@given(DOCUMENT, st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_no_width_is_too_narrow(pieces: list[str], width: int) -> None:
    layout = Layout(width)
    layout.update(markdown("".join(pieces)))
    assert all(line.stop <= len(line.row.text) for line in layout.lines)
