"""The chat page as tests use it: open, ask, read what is there.

SPDX-License-Identifier: Apache-2.0
"""


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        self.open(url)

    def open(self, url):
        self.url = url
        self.browser.open(url)
        self.browser.complaints()  # of the page before

    def js(self, expression):
        return self.browser.run("return " + expression)

    def wait(self, expression, seconds=60):
        self.browser.wait("return " + expression, seconds)

    def click(self, css):
        self.browser.click(css)

    def texts(self, css):
        return self.js(f"[...document.querySelectorAll({css!r})].map(e => e.innerText.trim())")

    @property
    def questions(self):
        return self.texts("article.user .asked")

    @property
    def answers(self):
        return self.texts("article.assistant > .text")

    @property
    def notice(self):
        return self.js("document.getElementById('notice').hidden ? '' : "
                       "document.getElementById('notice-text').textContent")

    @property
    def chats(self):
        return self.texts("#chats button")

    @property
    def typed(self):
        return self.js("document.getElementById('text').value")

    def idle(self, seconds=60):
        self.wait("document.getElementById('stop').hidden", seconds)

    def send(self, text):
        self.browser.type("#text", text)
        self.click("#send")

    def submit(self, text):
        """Send without the mouse, which does not work in a tab that is behind another."""
        self.browser.run(f"document.getElementById('text').value = {text!r};"
                         "document.getElementById('form').requestSubmit()")

    def ask(self, text):
        """Send and wait until the answer has ended, in whichever way."""
        self.send(text)
        self.wait("document.getElementById('talk').ariaBusy === 'false'")
        self.idle()

    def act(self, name, role="assistant"):
        """Press the button `name` of the last message of a role."""
        self.browser.run(f"[...document.querySelectorAll('article.{role} [data-act={name}]')].at(-1).click()")

    def set(self, **settings):
        """Change settings, as typing in the dialog does."""
        for name, value in settings.items():
            self.browser.run(f"const e = document.getElementById('{name}'); e.value = {str(value)!r};"
                             "e.dispatchEvent(new Event('change'));")
