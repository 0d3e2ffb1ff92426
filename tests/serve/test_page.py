"""The page's file, and the page in a real browser where there is one."""
import re
import time
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from cuzk_cli.serve import start
from cuzk_cli.status import Tracker, Writer, read_status

from .chromium import Chromium, find
from .common import TOKEN, ask, serving, tracker

PAGE = (files("cuzk_cli.serve") / "page.html").read_text()


def test_nothing_is_loaded_from_elsewhere():
    links = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attributes):
            assert tag not in ("iframe", "object", "embed", "base", "img", "audio", "video")
            for name, value in attributes:
                assert not name.startswith("on") and name != "style"       # the policy would refuse them
                if name in ("src", "href", "action", "srcset", "data", "poster", "formaction"):
                    links.append(value)

    Links().feed(PAGE)
    assert len(links) == 1 and links[0].startswith("data:")
    assert not re.search(r"(https?:)?//[a-z0-9]|@import|url\(|import\(", PAGE.replace("// ", ""))
    assert re.findall(r"fetch\(([^,)]*)", PAGE) == ['"status"']


def test_what_is_shown_is_text():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|cookie|localStorage", PAGE)


# ---- in a browser
browser = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    program = find()
    if program is None:
        pytest.skip("no Chromium on this machine: install it, or name it in CHROMIUM")
    found = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def page(chromium):
    """The browser with nothing remembered."""
    chromium.look(1280, 900)
    chromium.open("about:blank")
    chromium.errors.clear()
    chromium.requests.clear()
    return chromium


SHOWN = "!document.getElementById('all').hidden"
JOB = "snap-1000-17-0123456789ab"


def text(page, selector):
    return page.run(f"document.querySelector({selector!r}).innerText")


@browser
def test_shows_workers_jobs_and_partitions(page, server):
    page.open(server.url)
    page.wait(SHOWN)
    assert text(page, "#state") == "fresh" and page.run("document.title") == "1 running, cuzk"
    rows = page.run("[...document.querySelectorAll('.worker .now')].map(n => n.innerText)")
    assert "proving P3" in rows[0] and JOB in rows[0] and rows[1].startswith("idle")
    cells = page.run("[...document.querySelectorAll('#jobs .part')].map(n => n.innerText.split('\\n').join(' '))")
    assert [cell.split()[:2] for cell in cells] == [["P2", "done"], ["P3", "proving"], ["P4", "waiting"]]
    assert "1.2 s" in cells[0]
    assert sorted(page.run("[...document.querySelectorAll('.bar')].map(n => n.className)")) == ["bar done", "bar open"]
    assert not page.errors, page.errors
    assert set(page.requests) == {server.url, server.url + "status"}


@browser
def test_a_bar_tells_what_it_was(page, server):
    page.open(server.url)
    page.wait(SHOWN)
    page.run("document.querySelector('.bar.done').click()")
    assert re.fullmatch(rf"{JOB} P2 on W0, .* device 1\.2 s, done, pid \d+", text(page, "#told"))


@browser
def test_follows_without_being_loaded_again(page, tmp_path):
    prover = tracker(tmp_path)
    server = serving(tmp_path)
    page.open(server.url)
    page.wait(SHOWN)
    page.run("window.mine = document.querySelector('#jobs details'); window.mine.open = false")
    prover.partition_gpu_start(JOB, 4, 1)
    page.wait("document.querySelectorAll('.worker .now')[1].innerText.startsWith('proving P4')")
    assert page.run("window.mine === document.querySelector('#jobs details') && !window.mine.open")     # kept as it was
    prover.job_finished(JOB, False, "partition 4 does not verify")
    page.wait("document.querySelector('#finished .why')?.innerText === 'partition 4 does not verify'")
    server.close()
    page.wait("document.getElementById('state').innerText === 'no answer' && document.body.classList.contains('lost')")
    assert text(page, "#age").startswith("last answer ")
    again = serving(tmp_path, server.name)
    page.wait("document.getElementById('state').innerText === 'fresh' && !document.body.classList.contains('lost')")
    again.close()


@browser
def test_overlapping_work_of_a_worker_is_shown_in_lanes(page, tmp_path):
    prover = tracker(tmp_path)
    prover.partition_gpu_start(JOB, 4, 0)       # P3 is still being finished
    server = serving(tmp_path)
    page.open(server.url)
    page.wait(SHOWN)
    tops = page.run("[...document.querySelectorAll('.bar.open')].map(n => n.style.top)")
    assert len(tops) == len(set(tops)) == 2
    server.close()


@browser
def test_no_prover(page, tmp_path):
    server = serving(tmp_path / "none")
    page.open(server.url)
    page.wait(SHOWN)
    assert text(page, "#state") == "no prover" and str(tmp_path / "none") in text(page, "#jobs-none")
    assert not page.errors
    server.close()


@browser
def test_stale(page, folder):
    server = start("127.0.0.1:0", None, lambda: read_status(folder, stale_after=0.1))
    time.sleep(0.3)
    page.open(server.url)
    page.wait(SHOWN)
    assert text(page, "#state") == "stale" and "no write for" in text(page, "#notes")
    assert "proving P3, no news" in text(page, ".worker .now")
    server.close()


@browser
def test_token(page, folder):
    server = serving(folder, token=TOKEN)
    page.open(server.url)
    page.wait("!document.getElementById('ask').hidden")
    assert not page.run(SHOWN)
    give = "document.getElementById('token').value = {!r}; document.querySelector('form').requestSubmit()"
    page.run(give.format("x" * 20))
    page.wait("!document.getElementById('ask').hidden && document.getElementById('wrong').innerText !== ''")
    page.run(give.format(TOKEN))
    page.wait(SHOWN)
    assert text(page, "#state") == "fresh"
    page.open(server.url)       # remembered by this tab
    page.wait(SHOWN)
    assert not any(TOKEN in url for url in page.requests)
    server.close()


@browser
def test_text_of_others_is_no_markup(page, tmp_path):
    evil = "<img src=x onerror=document.title='evil'>\"'&\u202e\u0000\U0001f4a9" + "x" * 500
    prover = Tracker(Writer(tmp_path, fsync=False))
    prover.add_workers([(0, 0)])
    prover.job_started(evil, evil, [0, 1])
    prover.partition_gpu_start(evil, 0, 0)
    prover.partition_failed(evil, 1, evil)
    prover.waiting(evil, {"kind": evil, "need": evil, evil: 1})
    prover.observe(lambda: [{"kind": evil, "label": evil, "seconds": 1.0}],
                   lambda: [{"operation": evil, "path": evil, "seconds": 1.0}])
    prover.job_started("other", "snap", [0])
    prover.job_finished("other", False, evil)
    server = serving(tmp_path)
    for width, touch in ((1280, False), (360, True)):
        page.look(width, 800, touch=touch)
        page.open(server.url)
        page.wait(SHOWN)
        assert "evil" not in page.run("document.title") and page.run("document.images.length") == 0
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        assert "\u202e" not in page.run("document.body.innerText")
    assert not page.errors, page.errors
    server.close()


@browser
@pytest.mark.parametrize("width, touch", [(320, True), (390, True), (768, True), (1280, False), (2560, False)])
def test_no_width_scrolls_sideways(page, server, width, touch):
    page.look(width, 800, touch=touch)
    page.open(server.url)
    page.wait(SHOWN)
    assert page.run("document.documentElement.scrollWidth") == page.run("innerWidth") == width
    assert page.run("[...document.querySelectorAll('.part, .worker, #figures > div')].every(n => n.scrollWidth <= n.clientWidth + 1)")


@browser
def test_light_and_dark(page, server):
    shades = []
    for scheme in ("light", "dark"):
        page.look(1280, 800, scheme)
        page.open(server.url)
        page.wait(SHOWN)
        back, front = (_luminance(page.run(f"getComputedStyle(document.body).{name}")) for name in ("backgroundColor", "color"))
        assert (max(back, front) + 0.05) / (min(back, front) + 0.05) > 7
        shades.append(back)
    assert shades[0] > 0.8 and shades[1] < 0.05


def _luminance(colour):
    """Of rgb(r, g, b), as WCAG 2 defines it."""
    values = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@browser
def test_foreign_pages_cannot_read_it(page, server, folder):
    """A page of another origin: here another port."""
    other = serving(folder)
    page.open(other.url)
    page.wait(SHOWN)
    port = server.name.rpartition(":")[2]
    assert page.run(f"fetch('http://127.0.0.1:{port}/status').then(r => r.status, () => 'refused')") == "refused"
    assert ask(server).status == 200
    other.close()


@browser
def test_a_full_hour_of_many_assignments(page, tmp_path):
    prover = Tracker(None)
    prover.add_workers([(0, 0)])
    prover.job_started(JOB, "snap", list(range(16)))
    for i in range(1000):
        prover.partition_gpu_end(prover.partition_gpu_start(JOB, i % 16, 0), "retry", 1.0)
    prover._writer = Writer(tmp_path, fsync=False)
    prover.start()
    server = serving(tmp_path)
    page.open(server.url)
    page.wait("document.querySelectorAll('.bar').length === 1000")
    assert text(page, "#told").startswith("1000 assignments in the last 1 h")
    assert not page.errors
    server.close()
    prover.close()
