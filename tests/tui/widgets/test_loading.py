import pytest
from textual.app import App, ComposeResult

from colibri_tui.render.glyphs import BLOCKS
from colibri_tui.widgets.loading import Loading, progress_text
from colibri_tui.widgets.queue_view import QueueView


class Host(App[None]):
    def compose(self) -> ComposeResult:
        yield Loading(BLOCKS)
        yield QueueView()


def text(widget) -> list[str]:
    return [strip.text.rstrip() for strip in widget.render_lines(widget.size.region)]


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (("compiling kernels", 5, 23), "compiling kernels 5/23"),
        (("reading the dense part", 400_000_000, 1_200_000_000), "reading the dense part 400 MB of 1.20 GB"),
        (("starting", 0, 0), "starting"),
        (("bad\x1b[31m", 0, 0), "bad␛[31m"),
    ],
)
def test_progress_in_words(progress, words):
    assert progress_text(*progress) == words


async def test_a_bar_where_the_total_is_known():
    async with Host().run_test() as pilot:
        loading = pilot.app.query_one(Loading)
        assert not loading.display
        loading.show("compiling kernels", 6, 24)
        await pilot.pause()
        assert text(loading) == ["█" * 3 + "░" * 9 + "  compiling kernels 6/24"]
        loading.show("starting", 0, 0)
        await pilot.pause()
        assert text(loading) == ["starting"]
        loading.hide()
        assert not loading.display


async def test_the_queue_shows_what_comes_next():
    async with Host().run_test(size=(30, 10)) as pilot:
        queue = pilot.app.query_one(QueueView)
        assert not queue.display
        queue.show(["one\ntwo", "\x1b[31mred", "three " * 20, "four", "five"])
        await pilot.pause()
        lines = text(queue)
        assert lines[0] == "queued: one two"
        assert "\x1b" not in lines[1]
        assert len(lines) == 4
        assert lines[3] == "and 2 more"
        queue.show([])
        assert not queue.display
