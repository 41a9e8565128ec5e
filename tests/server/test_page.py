"""The chat page in a real browser.

SPDX-License-Identifier: Apache-2.0
"""
import http.server
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from webdriver import Browser

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "src" / "server" / "page.html"
IDLE = "return document.getElementById('stop').disabled"
ANSWERS = "return document.querySelectorAll('article.assistant').length"
LAST = "return [...document.querySelectorAll('article.assistant')].pop().innerText"


@pytest.fixture
def browser():
    made = Browser()
    yield made
    made.close()


def test_policy_names_script_and_style():
    subprocess.run([sys.executable, str(ROOT / "tools" / "page_hash.py"), "--check"], check=True)


def ask(browser, text):
    browser.type("#text", text)
    browser.click("#send")


def test_chat_reload_regenerate_edit(server, browser):
    browser.open(server.url + "/")
    browser.wait("return document.getElementById('about').textContent.includes('context')")
    browser.run("const s = document.getElementById('max_tokens'); s.value = 24; s.onchange();"
                "const t = document.getElementById('temperature'); t.value = 0; t.onchange();")
    ask(browser, "What is the capital of France?")
    browser.wait(ANSWERS + " === 1")
    browser.wait(IDLE)
    assert "Paris" in browser.run(LAST)
    assert "tokens of context" in browser.run("return document.getElementById('status').textContent")
    browser.open(server.url + "/")
    browser.wait(ANSWERS + " === 1")
    assert "Paris" in browser.run(LAST)
    browser.click("#again")
    browser.wait("return document.getElementById('status').textContent.includes('of context')")
    assert browser.run(ANSWERS) == 1 and "Paris" in browser.run(LAST)
    browser.click("article.user button")
    browser.wait("return document.getElementById('text').value.includes('France')")
    assert browser.run(ANSWERS) == 0
    assert browser.complaints() == []


def test_stop(server, browser):
    browser.open(server.url + "/")
    browser.run("const s = document.getElementById('max_tokens'); s.value = 1500; s.onchange();")
    ask(browser, "Write a very long story about the sea.")
    browser.wait("return document.querySelectorAll('article.assistant p').length > 0")
    browser.click("#stop")
    browser.wait(IDLE, 5)
    assert browser.run(ANSWERS) == 1


HOSTILE = ("<img src=x onerror=\"window.hurt=1\"><script>window.hurt=1</script>\n\n"
           "[click](javascript:window.hurt=1) [data](data:text/html,x) [good](https://example.org/a)\n\n"
           "```html\n<script>window.hurt=1</script>\n```\n\n**<b onclick=hurt()>bold</b>** `<i>`\n")


class Hostile(http.server.BaseHTTPRequestHandler):
    """A server whose model has been told to attack the page."""

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/":
            self.reply("text/html; charset=utf-8", PAGE.read_bytes())
        else:
            card = {"id": "<img src=x onerror=window.hurt=1>", "max_model_len": 99}
            self.reply("application/json", json.dumps({"data": [card]}).encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        out = ""
        for piece in [HOSTILE[i:i + 7] for i in range(0, len(HOSTILE), 7)]:
            out += "data: " + json.dumps({"choices": [{"delta": {"content": piece}}]}) + "\n\n"
        self.reply("text/event-stream", (out + "data: [DONE]\n\n").encode())

    def log_message(self, *args):
        pass


def test_hostile_text_stays_text(browser):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as fake:
        threading.Thread(target=fake.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{fake.server_port}/")
        ask(browser, "attack <img src=x onerror=window.hurt=1>")
        browser.wait("return document.querySelectorAll('article.assistant pre').length === 1")
        browser.wait(IDLE)
        assert browser.run("return window.hurt === undefined")
        assert browser.run("return document.querySelectorAll('main img, main script, main b').length") == 0
        links = browser.run("return [...document.querySelectorAll('main a')].map(a => a.href)")
        assert links == ["https://example.org/a"]
        assert "<script>" in browser.run(LAST)
        fake.shutdown()


@pytest.mark.parametrize("dark", [False, True])
def test_fits_a_phone(server, tmp_path, dark):
    phone = Browser(320, 640, dark)
    try:
        phone.open(server.url + "/")
        ask(phone, "Say hello.")
        phone.wait(ANSWERS + " === 1")
        assert phone.run("return document.documentElement.scrollWidth") <= 320
        phone.screenshot(tmp_path / "phone.png")
    finally:
        phone.close()


def test_server_gone_is_said(tiny_server, browser):
    browser.open(tiny_server.url + "/")
    tiny_server.stop()
    ask(browser, "hello")
    browser.wait("return document.getElementById('notice').textContent.includes('cannot be reached')")
