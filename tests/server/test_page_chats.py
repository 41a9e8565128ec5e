"""What the chat page does with answers, errors and conversations, against a scripted server.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import threading
import time
from pathlib import Path

import pytest
from chatpage import Page
from scripted import Answer, Scripted
from webdriver import ENTER, ESCAPE, SHIFT, TAB, UP, Browser


@pytest.fixture
def scripted(page_server, browser):
    """scripted(answers...): the page, in front of a server that gives these."""
    running = []

    def make(*script, **options):
        fake = Scripted(page_server, *script, **options)
        running.append(fake.__enter__())
        page = Page(browser, fake.url)
        page.fake = fake
        return page

    yield make
    browser.open("about:blank")
    for fake in running:
        fake.__exit__()


# --- answers that fail, stop or are cut off ---

def test_a_failed_send_is_not_in_the_history(scripted):
    page = scripted(Answer("one"), Answer(status=500, message="out of memory"), Answer("three"))
    page.ask("first")
    page.ask("second")
    assert page.notice == "out of memory"
    assert page.questions == ["first"] and page.typed == "second"
    page.click("#send")
    page.wait("document.querySelectorAll('article.assistant').length === 2")
    page.idle()
    sent = [m["content"] for m in page.fake.bodies[-1]["messages"]]
    assert sent == ["first", "one", "second"] and page.answers == ["one", "three"]
    assert page.notice == ""


def test_a_first_send_that_fails_leaves_no_chat(scripted):
    page = scripted(Answer(status=500, message="boom"), Answer("one"))
    page.ask("first")
    assert page.chats == ["New chat"] and page.typed == "first"
    assert page.js("localStorage.length") == 0
    page.click("#send")
    page.wait("document.querySelector('article.assistant')?.innerText.includes('one')")
    page.idle()
    assert page.chats == ["first"] and page.js("localStorage.length") == 1


def test_regenerate_that_fails_keeps_the_old_answer(scripted):
    page = scripted(Answer("old answer"), Answer(status=500, message="boom"), Answer("new answer"))
    page.ask("question")
    page.act("again")
    page.wait("!document.getElementById('notice').hidden")
    page.idle()
    assert page.answers == ["old answer"] and page.questions == ["question"]
    page.act("again")
    page.wait("document.querySelector('.assistant .count')?.textContent === '2/2'")
    assert page.answers == ["new answer"]
    page.act("before")
    assert page.answers == ["old answer"]
    page.open(page.url)
    assert page.answers == ["old answer"], "the version that was chosen is kept"


def test_edit_can_be_left_and_cuts_nothing(scripted):
    page = scripted(Answer("one"), Answer("two"), Answer("another"))
    page.ask("first")
    page.ask("second")
    for leave in (lambda: page.browser.keys(ESCAPE), lambda: page.click(".editing button")):
        page.browser.run("document.querySelector('article.user [data-act=edit]').click()")
        page.browser.keys(" changed")
        assert page.answers == ["one", "two"]
        leave()
        assert page.questions == ["first", "second"] and page.answers == ["one", "two"]
    page.browser.run("document.querySelector('article.user [data-act=edit]').click()")
    page.browser.keys(" changed" + ENTER)
    page.wait("document.querySelector('.user .count')?.textContent === '2/2'")
    page.idle()
    assert page.questions == ["first changed"] and page.answers == ["another"]
    assert [m["content"] for m in page.fake.bodies[-1]["messages"]] == ["first changed"]
    page.act("before", "user")
    assert page.questions == ["first", "second"] and page.answers == ["one", "two"]


def test_an_edit_that_fails_comes_back_as_an_edit(scripted):
    page = scripted(Answer("one"), Answer(status=500, message="boom"))
    page.ask("first")
    page.act("edit", "user")
    page.browser.keys(" changed" + ENTER)
    page.wait("!document.getElementById('notice').hidden")
    page.wait("document.activeElement.value === 'first changed'")
    page.browser.keys(ESCAPE)
    assert page.questions == ["first"] and page.answers == ["one"]


def test_stop_keeps_what_came_and_says_how_fast(scripted):
    never = threading.Event()
    page = scripted(Answer("some ", .1, "words ", .1, "here", never), Answer(never))
    page.send("question")
    page.wait("document.querySelector('article.assistant')?.innerText.includes('here')")
    page.browser.keys(ESCAPE)
    page.idle()
    assert page.answers == ["some words here"]
    assert re.search(r"[\d.]+ tokens/s, 13 of 2048 tokens of context", page.texts(".figures")[0])
    page.send("never begun")
    page.wait("!document.getElementById('stop').hidden")
    page.click("#stop")
    page.idle()
    assert page.typed == "never begun" and len(page.questions) == 1
    never.set()


def test_reload_while_streaming_keeps_the_part(scripted):
    never = threading.Event()
    page = scripted(Answer("a part of ", "it", never), Answer(", and the rest"))
    page.send("question")
    page.wait("document.querySelector('article.assistant')?.innerText.includes('part of it')")
    page.open(page.url)
    assert page.questions == ["question"] and page.answers == ["a part of it"]
    assert page.texts(".end") in (["Cut off before it was whole."], ["Stopped."])
    page.act("more")
    page.wait("document.querySelector('article.assistant').innerText.includes('rest')")
    page.idle()
    body = page.fake.bodies[-1]
    assert body["continue_final_message"] and not body["add_generation_prompt"]
    assert body["messages"][-1] == {"role": "assistant", "content": "a part of it"}
    assert page.answers == ["a part of it, and the rest"] and page.texts(".end") == []
    never.set()


def test_reload_before_the_first_word_leaves_a_question_that_can_be_asked(scripted):
    never = threading.Event()
    page = scripted(Answer(never), Answer("late"))
    page.send("question")
    page.wait("!document.getElementById('stop').hidden")
    page.open(page.url)
    assert page.answers == []
    assert page.questions == ["question"]
    page.act("again", "user")
    page.wait("document.querySelector('article.assistant')?.innerText.includes('late')")
    assert page.questions == ["question"]
    never.set()


def test_a_connection_that_breaks_is_said_and_keeps_the_part(scripted):
    page = scripted(Answer("half an ", "answer", .3, ends=False))
    page.ask("question")
    assert page.answers == ["half an answer"] and page.notice
    assert page.texts(".end") == ["Cut off before it was whole."]


def test_context_full(scripted):
    too_long = ("This model's maximum context length is 64 tokens. However, you requested 0 output "
                "tokens and your prompt contains 99 input tokens, for a total of 99 tokens.")
    page = scripted(Answer("until it is full", finish="length", total=64),
                    Answer(status=400, message=too_long), context=64)
    page.ask("question")
    assert "context is full" in page.texts(".end")[0]
    assert "64 of 64 tokens of context" in page.texts(".figures")[0]
    page.ask("one more")
    assert page.notice == too_long and page.typed == "one more"
    page.click("#notice-act")
    assert page.questions == [] and len(page.chats) == 2


def test_longest_answer_is_said(scripted):
    page = scripted(Answer("cut", finish="length"))
    page.ask("question")
    assert "longest answer" in page.texts(".end")[0]


def test_key_is_asked_for_and_kept_for_the_tab(scripted):
    page = scripted(Answer("hello"), key="open sesame")
    page.wait("document.getElementById('settings').open && document.activeElement.id === 'key'")
    page.browser.keys("wrong\t")
    page.wait("document.getElementById('key-said').textContent.includes('not the right one')")
    page.browser.run("document.getElementById('key').select()")
    page.browser.type("#key", "open sesame" + ENTER)
    page.wait("document.getElementById('about').textContent.includes('context')")
    page.wait("!document.getElementById('settings').open")
    assert page.notice == ""
    page.ask("question")
    assert page.answers == ["hello"]
    page.open(page.url)
    page.wait("document.getElementById('about').textContent.includes('context')")
    assert page.js("Object.values(localStorage).every(v => !v.includes('sesame'))")


def test_thinking_is_folded_apart(scripted):
    gate, rest = threading.Event(), threading.Event()
    page = scripted(Answer({"reasoning": "I wonder **why**."}, gate, "Because.", rest), Answer("yes"))
    page.send("why?")
    page.wait("document.querySelector('.thought summary')?.innerText.includes('Thinking …')")
    page.wait("!document.querySelector('.thought').hidden")
    assert page.js("document.querySelector('.thought').open") is False
    page.click(".thought summary")
    gate.set()
    page.wait("document.querySelector('article.assistant').innerText.includes('Because')")
    assert page.js("document.querySelector('.thought').open"), "it stays as the reader has it"
    assert page.texts(".thought strong") == ["why"] and page.answers == ["Because."]
    rest.set()
    page.idle()
    assert page.texts(".thought summary") == ["Thinking"]
    page.ask("sure?")
    assert all("wonder" not in json.dumps(m) for m in page.fake.bodies[-1]["messages"])


# --- screen readers, keyboard ---

def test_a_log_that_is_busy_while_an_answer_comes(scripted):
    gate = threading.Event()
    page = scripted(Answer("one"), Answer("two ", gate, "three"))
    page.ask("first")
    page.browser.run("window.kept = document.querySelector('article.assistant'); window.changes = 0;"
                     "new MutationObserver(m => window.changes += m.length).observe(window.kept.querySelector('.text'),"
                     "{childList: true, subtree: true, characterData: true})")
    page.send("second")
    page.wait("document.getElementById('talk').innerText.includes('two')")
    log = "document.getElementById('talk').getAttribute"
    assert page.js(f"{log}('role') + {log}('aria-live') + {log}('aria-busy')") == "logpolitetrue"
    gate.set()
    page.idle()
    assert page.js(f"{log}('aria-busy')") == "false"
    assert page.js("window.kept === document.querySelector('article.assistant') && window.changes === 0"), \
        "an answer that was there is left alone"
    assert page.js("document.querySelector('.actions').getAttribute('aria-live')") == "off"


def test_keyboard_alone(scripted):
    never = threading.Event()
    page = scripted(Answer("one"), Answer("two"), Answer("three", never))
    keys = page.browser.keys
    page.wait("document.activeElement.id === 'text'")
    keys("a line" + SHIFT + ENTER + SHIFT + "and another" + ENTER)
    page.wait("document.querySelector('article.assistant')?.innerText.includes('one')")
    page.idle()
    assert page.questions == ["a line\nand another"]
    assert page.js("document.activeElement.id") == "text"
    keys(UP)
    page.wait("document.activeElement.closest('.editing') !== null")
    keys(" changed" + ENTER)
    page.wait("document.querySelector('article.assistant')?.innerText.includes('two')")
    page.idle()
    reached = set()
    for _ in range(40):
        keys(TAB)
        reached.add(page.js("document.activeElement.id || document.activeElement.dataset.act || "
                            "document.activeElement.dataset.chat && 'chat' || document.activeElement.tagName"))
    assert reached >= {"new", "chat", "set", "scroll", "copy", "edit", "again", "before", "text",
                       "send"}, reached
    page.browser.run("document.getElementById('set').focus()")
    keys(ENTER)
    page.wait("document.getElementById('settings').open")
    keys(ESCAPE)
    page.wait("!document.getElementById('settings').open")
    assert page.js("document.activeElement.id") == "set"
    page.browser.run("document.querySelector('#chat-menu summary').focus()")
    keys(ENTER)
    page.wait("document.getElementById('chat-menu').open")
    keys(ESCAPE)
    page.wait("!document.getElementById('chat-menu').open")
    page.browser.run("document.getElementById('text').focus()")
    keys("go" + ENTER)
    page.wait("document.getElementById('talk').innerText.includes('three')")
    keys(ESCAPE)
    page.idle()
    unnamed = page.js("[...document.querySelectorAll('button, summary, input, textarea, select')].filter(e => "
                      "e.checkVisibility() && !(e.ariaLabel || e.innerText || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML)")
    assert unnamed == []
    never.set()


# --- several conversations ---

def test_several_chats_rename_delete_undo(scripted):
    page = scripted(Answer("one"), Answer("two"), Answer("three"))
    page.ask("first chat")
    page.click("#new")
    page.ask("second chat")
    assert page.chats == ["second chat", "first chat"]
    page.browser.run("document.querySelectorAll('#chats button')[1].click()")
    assert page.answers == ["one"]
    page.click("#chat-menu summary")
    page.click("#rename")
    page.browser.keys("renamed" + ENTER)
    page.wait("!document.getElementById('renaming').open")
    page.ask("on with it")
    assert [m["content"] for m in page.fake.bodies[-1]["messages"]] == ["first chat", "one", "on with it"]
    assert page.chats == ["renamed", "second chat"]
    page.open(page.url)
    assert page.chats == ["renamed", "second chat"] and page.answers == ["one", "three"]
    page.click("#chat-menu summary")
    page.click("#delete")
    assert page.chats == ["second chat"] and page.answers == ["two"]
    page.click("#notice-act")
    assert page.chats == ["renamed", "second chat"] and page.answers == ["one", "three"]
    page.click("#chat-menu summary")
    page.click("#delete")
    page.open(page.url)
    assert page.chats == ["second chat"]


def test_deleted_while_it_is_answered(scripted):
    never = threading.Event()
    page = scripted(Answer("begun ", never))
    page.send("question")
    page.wait("document.getElementById('talk').innerText.includes('begun')")
    page.click("#chat-menu summary")
    page.click("#delete")
    page.wait("runs.size === 0")
    assert page.chats == ["New chat"] and page.js("localStorage.length") == 0
    page.click("#notice-act")
    assert page.answers == ["begun"] and page.js("localStorage.length") == 1
    never.set()


def test_another_chat_while_one_is_answered(scripted):
    gate = threading.Event()
    page = scripted(Answer("begun ", gate, "and ended"), Answer("quick"))
    page.send("slow")
    page.wait("document.getElementById('talk').innerText.includes('begun')")
    page.click("#new")
    page.ask("fast")
    assert page.answers == ["quick"] and page.questions == ["fast"]
    gate.set()
    page.wait("!document.querySelector('#chats .answering')")
    page.browser.run("document.querySelector('#chats button:not([aria-current])').click()")
    assert page.answers == ["begun and ended"]


def test_two_tabs_keep_each_others_chats(scripted):
    page = scripted(Answer("to one"), Answer("to two"), Answer("more"))
    browser = page.browser
    first = browser.tab()
    try:
        second = browser.call("GET", "/window")
        page.open(page.url)
        browser.go(first)
        page.ask("from tab one")
        browser.go(second)
        page.wait("document.querySelectorAll('#chats button').length === 2")
        page.ask("from tab two")
        page.open(page.url)
        assert sorted(page.chats) == ["from tab one", "from tab two"]
        browser.go(first)
        page.wait("document.querySelectorAll('#chats button').length === 2")
        browser.run("[...document.querySelectorAll('#chats button')].find(b => b.textContent === 'from tab two').click()")
        page.ask("and one more")
        browser.go(second)
        page.wait("document.querySelectorAll('article.assistant').length === 2")
        assert page.answers == ["to two", "more"], "the other tab follows"
    finally:
        browser.go(second)
        browser.call("DELETE", "/window")
        browser.go(first)


def test_two_tabs_that_change_the_same_chat_lose_nothing(scripted):
    one, two = threading.Event(), threading.Event()
    page = scripted(Answer("start"), Answer("alpha ", one, "beta"), Answer("gamma ", two, "delta"))
    browser = page.browser
    page.ask("question")
    first = browser.tab()
    second = browser.call("GET", "/window")
    try:
        page.open(page.url)
        page.submit("in tab two")
        page.wait("document.getElementById('talk').innerText.includes('alpha')")
        browser.go(first)
        page.wait("document.getElementById('talk').innerText.includes('in tab two')")
        page.submit("in tab one")
        page.wait("document.getElementById('talk').innerText.includes('gamma')")
        one.set()
        two.set()
        page.idle()
        browser.go(second)
        page.idle()
        page.open(page.url)
        kept = page.js("[...chats.values()].flatMap(c => c.nodes.map(n => n.content))")
        assert {"alpha beta", "gamma delta", "in tab one", "in tab two"} <= set(kept), kept
    finally:
        browser.go(second)
        browser.call("DELETE", "/window")
        browser.go(first)


DAMAGED = ["nonsense", "1\nnonsense", "1\n[]", '1\n{"nodes": 3}', '1\n{"nodes": [{"parent": 0}]}',
           '1\n{"nodes": [{"parent": -1, "role": "system", "content": "x"}]}',
           '1\n{"nodes": [{"parent": -1, "role": "user", "content": {}}]}']


def test_what_is_kept_is_checked(scripted):
    page = scripted(Answer("fine"))
    odd = {"name": 7, "system": [], "thinking": "x", "at": "now", "first": 99, "settings":
           {"temperature": "hot", "top_p": 7, "top_k": 1.5, "seed": 4, "evil": 1, "__proto__": {"a": 1}},
           "nodes": [{"parent": -1, "role": "user", "content": "kept", "next": -7, "reasoning": 4}]}
    for settings in (None, 3, "x"):
        page.browser.run(f"localStorage.setItem('glyd.chat.s{settings}', '1\\n' + "
                         f"{json.dumps(json.dumps({'nodes': [], 'settings': settings}))})")
    for i, text in enumerate(DAMAGED):
        page.browser.run(f"localStorage.setItem('glyd.chat.d{i}', {json.dumps(text)})")
    page.browser.run(f"localStorage.setItem('glyd.chat.odd', '1\\n' + {json.dumps(json.dumps(odd))})")
    page.open(page.url)
    page.wait("!document.getElementById('notice').hidden")
    assert page.notice.startswith(f"{len(DAMAGED)} of the chats")
    page.browser.run("document.querySelector('[data-chat=odd]').click()")
    assert page.questions == ["kept"]
    page.act("again", "user")
    page.wait("document.querySelector('article.assistant')?.innerText.includes('fine')")
    page.idle()
    body = page.fake.bodies[-1]
    assert body["seed"] == 4 and not {"temperature", "top_p", "top_k", "evil"} & set(body)
    assert page.browser.complaints() == []


# --- settings, exports ---

def test_settings_out_of_range_are_said(scripted):
    page = scripted(Answer("one"), Answer("two"))
    page.click("#set")
    for name, value, text in (("temperature", "500", "from 0 to 100"), ("top_p", "1.5", "from 0.01 to 1"),
                              ("top_k", "2.5", "whole number"), ("max_tokens", "0", "from 1 to")):
        page.browser.type(f"#{name}", value + TAB)
        assert text in page.js(f"document.getElementById('{name}-said').textContent")
        assert page.js(f"document.getElementById('{name}').ariaInvalid") == "true"
    page.click("#settings-form .strong")
    assert page.js("document.getElementById('settings').open"), "it stays open while something is wrong"
    page.browser.keys(ESCAPE)
    page.wait("!document.getElementById('settings').open")
    page.browser.type("#text", "question" + ENTER)
    page.wait("document.getElementById('settings').open")
    assert page.fake.bodies == []
    page.set(temperature=0.5, top_p=1, top_k="", max_tokens=5)
    assert page.texts(".said:not(:empty)") == []
    page.click("#settings-form .strong")
    page.click("#send")
    page.wait("document.querySelector('article.assistant')?.innerText.includes('one')")
    body = page.fake.bodies[0]
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.5, 1, 5) and "top_k" not in body


@pytest.mark.parametrize("value,sent", [("", None), ("on", True), ("off", False)])
def test_thinking_setting(scripted, value, sent):
    page = scripted(Answer("one"))
    page.set(thinking=value)
    page.ask("question")
    kwargs = page.fake.bodies[0].get("chat_template_kwargs")
    assert kwargs == (None if sent is None else {"enable_thinking": sent})


@pytest.fixture
def saved(page_server, tmp_path):
    """A browser that saves files, its page, and a function that waits for one."""
    browser = Browser(downloads=tmp_path)
    with Scripted(page_server, Answer({"reasoning": "Let me think."}, "The answer.\n\n```c\nint x;\n```"),
                  Answer("other")) as fake:
        page = Page(browser, fake.url)
        page.fake = fake

        def wait(pattern):
            end = time.monotonic() + 20
            while not (found := list(Path(tmp_path).glob(pattern))):
                assert time.monotonic() < end, f"no {pattern}"
                time.sleep(0.05)
            return found[0]

        yield page, wait
        browser.close()


def test_exports_and_import(saved):
    page, wait = saved
    page.set(system="Be brief.", temperature=0.25)
    page.ask("My question: a/b?")
    page.act("again")
    page.wait("document.querySelector('.assistant .count')?.textContent === '2/2'")
    page.act("before")
    page.click("#chat-menu summary")
    page.click("#markdown")
    text = wait("*.md").read_text()
    assert text == ("# My question: a/b?\n\n## System prompt\n\nBe brief.\n\n## You\n\nMy question: a/b?\n\n"
                    "## Model\n\n<details><summary>Thinking</summary>\n\nLet me think.\n\n</details>\n\n"
                    "The answer.\n\n```c\nint x;\n```\n")
    page.click("#chat-menu summary")
    page.click("#json")
    path = wait("My-question-a-b.json")
    kept = json.loads(path.read_text())
    assert kept["system"] == "Be brief." and kept["settings"] == {"temperature": 0.25}
    assert [n["content"] for n in kept["nodes"]][-1] == "other"
    page.browser.run("document.getElementById('file').hidden = false")
    page.browser.type("#file", str(path))
    page.wait("document.querySelectorAll('#chats button').length === 2")
    assert page.answers[0].startswith("The answer.") and page.js("shown.settings.temperature") == 0.25
    path.write_text("{}")
    page.browser.type("#file", str(path))
    page.wait("!document.getElementById('notice').hidden")
    assert "is not a chat" in page.notice and len(page.chats) == 2
