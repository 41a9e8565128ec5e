"""How the chat page renders what a model writes: by its own functions, in a real browser.

SPDX-License-Identifier: Apache-2.0
"""
import json
import time

import pytest
from chatpage import Page
from scripted import Answer, Scripted
from page_cases import CASES


@pytest.fixture(scope="module")
def page(page_server, browser):
    with Scripted(page_server) as fake:
        yield Page(browser, fake.url)


def html(page, text):
    return page.browser.run(
        f"const d = document.createElement('div'); new Growing(d).set({json.dumps(text)});"
        "d.querySelectorAll('.code > div').forEach(e => e.remove());"
        "d.querySelectorAll('[tabindex]').forEach(e => e.removeAttribute('tabindex'));"
        "return d.innerHTML")


@pytest.mark.parametrize("text,wanted", CASES)
def test_rendered(page, text, wanted):
    assert html(page, text) == wanted


EVERYTHING = "\n\n".join(text for text, _ in CASES)


def test_a_growing_answer_ends_as_the_whole_one(page):
    """Every split of every case, and of all of them together in pieces of 7 characters."""
    grown = page.browser.run(
        f"""const cases = {json.dumps([text for text, _ in CASES])}, wrong = [];
        const whole = t => {{ const d = document.createElement('div'); new Growing(d).set(t); return d.innerHTML; }};
        for (const t of cases) {{
          const d = document.createElement('div'), g = new Growing(d);
          for (let i = 1; i <= t.length; i++) g.set(t.slice(0, i));
          if (d.innerHTML !== whole(t)) wrong.push(t);
          for (let i = 1; i < t.length; i++) {{
            const e = document.createElement('div'), h = new Growing(e);
            h.set(t.slice(0, i));
            h.set(t);
            if (e.innerHTML !== whole(t)) wrong.push([i, t]);
          }}
        }}
        const t = {json.dumps(EVERYTHING)}, d = document.createElement('div'), g = new Growing(d);
        for (let i = 0; i < t.length + 7; i += 7) g.set(t.slice(0, i));
        if (d.innerHTML !== whole(t)) wrong.push('everything');
        return wrong;""")
    assert grown == []


def test_what_is_finished_is_never_touched_again(page):
    """Of a long answer in 1,000 pieces, no node of a finished block is removed or changed."""
    touched = page.browser.run(
        """const d = document.body.appendChild(document.createElement('div')), g = new Growing(d);
        const paragraph = n => `Paragraph ${n} with **bold** and \\`code\\`.\\n\\n- a\\n- b\\n\\n`;
        const text = [...Array(60).keys()].map(paragraph).join('');
        const seen = new MutationObserver(() => {});
        seen.observe(d, { childList: true, characterData: true, subtree: true });
        let touched = 0;
        for (let i = 0; i < 1000; i++) {
          const finished = new Set([...d.children].slice(0, -2));
          g.set(text.slice(0, Math.ceil(text.length * (i + 1) / 1000)));
          for (const m of seen.takeRecords())
            for (const e of finished) if (e.contains(m.target) || [...m.removedNodes].includes(e)) touched++;
        }
        d.remove();
        return touched;""")
    assert touched == 0


def test_an_answer_is_drawn_at_most_once_a_frame(page_server, browser):
    """3,000 pieces that come at once, by count and not by time."""
    with Scripted(page_server, Answer(*["word "] * 3000)) as fake:
        page = Page(browser, fake.url)
        browser.run("""window.drawn = 0; window.frames_seen = 0;
            const set = Growing.prototype.set;
            Growing.prototype.set = function (t) { window.drawn++; set.call(this, t); };
            const count = () => { window.frames_seen++; requestAnimationFrame(count); }; count();""")
        page.ask("question")
        drawn, frames = page.js("window.drawn"), page.js("window.frames_seen")
        assert page.answers[0].count("word") == 3000
        assert drawn <= 2 * frames + 12, (drawn, frames)  # thinking and answer; begin and end beside


HOSTILE = {
    "backtick runs": "Array.from({length: n / 10}, (_, i) => '`'.repeat(1 + i % 40)).join(' ')",
    "one run of backticks": "'`'.repeat(n) + 'x'",
    "unclosed code": "'`a'.repeat(n / 2) + '``'",
    "stars": "'*a '.repeat(n / 3)",
    "opening and closing stars": "'*a '.repeat(n / 6) + 'a* '.repeat(n / 6)",
    "one run of stars": "'*'.repeat(n)",
    "mixed marks": "'*_~~a '.repeat(n / 6)",
    "brackets": "'['.repeat(n)",
    "links": "'[a]('.repeat(n / 4)",
    "long labels": "('[' + 'a'.repeat(490)).repeat(n / 491)",
    "addresses": "'http://'.repeat(n / 7)",
    "closing parentheses": "'http://a' + ')'.repeat(n)",
    "formulas": "'\\\\\\\\('.repeat(n / 2)",
    "quotes in quotes": "'>'.repeat(n)",
    "lists in lists": "'- '.repeat(n / 2)",
    "nested lists": "Array.from({length: 200}, (_, i) => ' '.repeat(2 * (i % 100)) + '- a').join('\\n')",
    "many headings": "'# a\\n'.repeat(n / 4)",
    "code of unclosed marks": "'```c\\n' + '/*\\\"`'.repeat(n / 4) + '\\n```\\n'",
    "code of words": "'```py\\n' + 'if x1 0x '.repeat(n / 9) + '\\n```\\n'",
    "many fences": "'```\\na\\n```\\n'.repeat(n / 10)",
    "spaces in a heading": "'# ' + ' '.repeat(n) + 'x'",
    "a wide table": "'|a'.repeat(n / 4) + '\\n' + '|-'.repeat(n / 4)",
    "almost tables": "'a|b\\n'.repeat(n / 4)",
    "rules that are none": "'- '.repeat(n / 2) + 'x'",
    "blank lines": "'\\n'.repeat(n)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(page, name):
    """50,000 characters: far below a second where time is linear, minutes where it is square."""
    start = time.monotonic()
    depth = page.browser.run(
        f"const n = 50000, text = {HOSTILE[name]}; const d = document.createElement('div');"
        "new Growing(d).set(text); let depth = 0;"
        "for (const e of d.querySelectorAll('*:not(:has(*))')) { let k = 0; for (let p = e; p !== d; p = p.parentNode) k++; depth = Math.max(depth, k); }"
        "return depth")
    assert time.monotonic() - start < 20
    assert depth <= 120


HURT = ("<img src=x onerror=\"window.hurt=1\"><script>window.hurt=1</script>\n\n"
        "[click](javascript:window.hurt=1) [data](data:text/html,x) [good](https://example.org/a) "
        "<javascript:window.hurt=1> ![i](https://example.org/i.png) ![j](javascript:window.hurt=1)\n\n"
        "```html\n<script>window.hurt=1</script>\n```\n\n**<b onclick=hurt()>bold</b>** `<i>`\n\n"
        "| <img src=x onerror=window.hurt=1> | b |\n|---|---|\n| [x](javascript:window.hurt=1) | </td> |\n\n"
        "- <svg onload=window.hurt=1>\n  > <iframe src=javascript:window.hurt=1>\n")


def test_hostile_text_stays_text(page_server, browser):
    """In an answer, its thinking, a question, a model's name, an error and a chat's name."""
    image = "<img src=x onerror=window.hurt=1>"
    with Scripted(page_server, Answer({"reasoning": HURT}, *[HURT[i:i + 7] for i in range(0, len(HURT), 7)]),
                  Answer(status=400, message=image), name=image) as fake:
        page = Page(browser, fake.url)
        page.ask(image)
        page.browser.run("document.querySelector('.thought').open = true")
        page.wait("document.querySelectorAll('article.assistant pre').length === 2")
        assert "<script>" in page.answers[0] and page.questions == [image]
        page.ask("error")
        assert page.notice == image and page.chats == [image]
        assert page.js("document.getElementById('model').innerText") == image
        assert page.js("window.hurt === undefined")
        assert page.js("document.querySelectorAll('main img, main script, main iframe, main article svg[onload], nav img').length") == 0
        links = page.js("[...document.querySelectorAll('article.assistant > .text a')].map(a => a.href)")
        assert links == ["https://example.org/a", "https://example.org/i.png"]
        assert page.js("[...document.querySelectorAll('article a')].every(a => a.rel.includes('noopener') && a.target === '_blank')")
        page.browser.run("try { document.body.insertAdjacentHTML('beforeend', '<b id=made></b>') } catch (e) {}")
        assert page.js("document.getElementById('made') === null"), "the policy forbids HTML from text"
