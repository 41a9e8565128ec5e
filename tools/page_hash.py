#!/usr/bin/env python3
"""Writes the hashes of script and style into the policy of src/server/page.html.

    tools/page_hash.py             write them, after the page was changed
    tools/page_hash.py --check     fail unless they are there

SPDX-License-Identifier: Apache-2.0
"""
import base64
import hashlib
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "src" / "server" / "page.html"


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def main():
    page = PAGE.read_text()
    script = re.search(r"<script>(.*?)</script>", page, re.S).group(1)
    style = re.search(r"<style>(.*?)</style>", page, re.S).group(1)
    new = re.sub(r"script-src '[^']*'", f"script-src '{digest(script)}'", page, count=1)
    new = re.sub(r"style-src '[^']*'", f"style-src '{digest(style)}'", new, count=1)
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if new == page else "page.html: run tools/page_hash.py")
    PAGE.write_text(new)


if __name__ == "__main__":
    main()
