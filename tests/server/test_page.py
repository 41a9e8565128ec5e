"""The chat page in a real browser, with the real model behind it.

SPDX-License-Identifier: Apache-2.0
"""
import http.server
import re
import threading

import pytest
from chatpage import Page
from serving import Server
from webdriver import Browser

CAPITAL = "What is the capital of France?"


@pytest.fixture
def page(server, browser):
    browser.open(server.url + "/")
    browser.run("localStorage.clear(); sessionStorage.clear()")
    page = Page(browser, server.url + "/")
    page.wait("document.getElementById('about').textContent.includes('context')")
    return page


def test_headers(server):
    headers = server.get("/").headers
    policy = headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "frame-ancestors 'none'", "connect-src 'self'",
                 "base-uri 'none'", "form-action 'none'"):
        assert part in policy.split("; ")
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)) == 2
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Content-Security-Policy" not in server.get("/health").headers


def test_cannot_be_framed(server, browser):
    """Another site's page that frames this one gets an empty frame."""

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = f"<iframe src='{server.url}/'></iframe>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{site.server_port}/")
        complaints = browser.call("POST", "/se/log", {"type": "browser"})
        browser.call("POST", "/frame", {"id": 0})
        assert browser.run("return document.getElementById('send') === null")
        browser.call("POST", "/frame", {"id": None})
        assert any("frame-ancestors" in entry["message"] for entry in complaints), complaints
        site.shutdown()


def test_chat_reload_regenerate_edit(server, page):
    page.set(max_tokens=24, temperature=0)
    page.ask(CAPITAL)
    assert "Paris" in page.answers[0]
    assert re.search(r"[\d.]+ tokens/s, \d+ of 2048 tokens of context",
                     page.texts(".figures")[0]), page.texts(".figures")
    page.open(page.url)
    assert page.questions == [CAPITAL] and "Paris" in page.answers[0]
    page.act("again")
    page.wait("document.querySelector('.assistant .count')?.textContent === '2/2'")
    page.idle()
    assert page.questions == [CAPITAL] and "Paris" in page.answers[0]
    page.act("edit", "user")
    page.browser.run("document.activeElement.select()")
    page.browser.keys("What is the capital of Italy?\ue007")
    page.wait("document.querySelector('.user .count')?.textContent === '2/2'")
    page.idle()
    alone = server.chat("What is the capital of Italy?", max_tokens=24)
    assert page.questions == ["What is the capital of Italy?"]
    assert page.answers == [alone.json["choices"][0]["message"]["content"]]
    page.act("before", "user")
    assert page.questions == [CAPITAL] and "Paris" in page.answers[0]
    assert page.browser.complaints() == []


def test_stop_says_how_fast_it_was_and_continue_goes_on(page):
    page.set(max_tokens=600, temperature=0)
    page.send("Write a very long story about the sea.")
    page.wait("document.querySelector('article.assistant p')?.textContent.length > 80")
    page.click("#stop")
    page.idle(5)
    stopped = page.answers[0]
    assert re.search(r"[\d.]+ tokens/s", page.texts(".figures")[0])
    assert page.texts(".end") == ["Stopped."]
    page.act("more")
    page.wait(f"document.querySelector('article.assistant > .text').textContent.length > {len(stopped) + 40}")
    page.click("#stop")
    page.idle(5)
    assert page.answers[0].startswith(stopped)


def test_system_prompt_and_settings_are_of_the_chat(page):
    page.browser.click("#set")
    page.browser.type("#system", "Answer with the single word Fish.")
    page.browser.type("#max_tokens", "7\t")
    page.click("#settings-form .strong")
    page.ask("Hello")
    page.open(page.url)
    assert page.js("document.getElementById('system').value") == "Answer with the single word Fish."
    assert page.js("document.getElementById('max_tokens').value") == "7"
    assert page.js("shown.nodes.at(-1).tokens") <= 7


@pytest.mark.parametrize("dark", [False, True])
def test_fits_a_phone(server, tmp_path, dark):
    phone = Browser(320, 640, dark, touch=True)
    try:
        page = Page(phone, server.url + "/")
        page.set(max_tokens=24, temperature=0)
        page.ask(CAPITAL)
        assert "Paris" in page.answers[0]
        assert page.js("document.documentElement.scrollWidth") <= 320
        wide = page.js("[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && "
                       "e.getBoundingClientRect().right > 321 && !e.closest('.unseen')).map(e => e.id || e.className)")
        assert wide == []
        assert page.js("document.getElementById('side').getBoundingClientRect().right") <= 0
        phone.click("#menu")
        page.wait("document.getElementById('side').getBoundingClientRect().left === 0")
        phone.click("#chats button")
        page.wait("document.getElementById('side').getBoundingClientRect().right <= 0")
        colour = "getComputedStyle(document.documentElement).{}.match(/\\d+/g).slice(0, 3).map(Number)"
        ground, text = page.js(colour.format("backgroundColor")), page.js(colour.format("color"))
        assert (max(ground) < 60 and min(text) > 200) if dark else (min(ground) > 200 and max(text) < 60)
        phone.screenshot(tmp_path / "phone.png")
    finally:
        phone.close()


def test_context_full(packed, browser):
    with Server(packed, "--parallel", 1, "--context", 64) as small:
        page = Page(browser, small.url + "/")
        page.set(temperature=0)
        page.ask("Write a very long story about the sea.")
        assert "context is full" in page.texts(".end")[0]
        assert re.search(r"tokens/s, 6[34] of 64 tokens of context", page.texts(".figures")[0])
        page.ask("And one about the mountains.")
        assert "maximum context length is 64 tokens" in page.notice
        assert page.typed == "And one about the mountains." and len(page.questions) == 1


def test_what_a_model_repeats_stays_text(page):
    """The hostile text goes through the real tokenizer, model, detokenizer and stream: the last
    message is continued, so the answer begins with it. No model is needed that would say it."""
    hostile = "<img src=x onerror=window.hurt=1><script>window.hurt=1</script>"
    page.set(max_tokens=4, temperature=0)
    page.ask(hostile)
    page.browser.run(f"shown.nodes.at(-1).content = {hostile!r} + ' '; shown.nodes.at(-1).finish = 'cut'; show()")
    page.act("more")
    page.wait("shown.nodes.at(-1).finish !== 'cut'")
    page.idle()
    assert page.answers[0].startswith(hostile)
    assert page.js("window.hurt === undefined && !document.querySelector('#talk img, #talk script')")


def test_server_gone_is_said(tiny_server, browser):
    page = Page(browser, tiny_server.url + "/")
    tiny_server.stop()
    page.ask("hello")
    assert "cannot be reached" in page.notice
    assert page.typed == "hello" and page.questions == []
