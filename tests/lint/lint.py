#!/usr/bin/env python3
"""The rules that a machine can hold: run by `make check`, prints each breach and exits 1.

  includes    the direction law of layers.txt
  sizes       files under 1,000 lines, functions under 80, kernels under 150
  banned      no getenv, exit, printf and friends in libraries; no unsafe string functions anywhere
  globals     no mutable state outside functions, no mutable statics inside them
  header      every C and CUDA file says what it is and carries the licence identifier
  documents   files that documents name exist; no placeholders
  format      clang-format has nothing to change (where it is installed)
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../../..").resolve()
FILE_LINES, FUNCTION_LINES, KERNEL_LINES = 1000, 80, 150
LIBRARIES = ("base", "codec", "save", "jinja", "text", "model", "cpu", "cuda", "engine", "constraint",
             "server", "hub", "file")
SPEAKS = re.compile(r"\b(getenv|secure_getenv|exit|_exit|abort|printf|puts|putchar|perror|system|"
                    r"popen|vprintf)\s*\(|\b(stdout|stderr|stdin)\b")
UNSAFE = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|atoi|atol|atof)\s*\(")
MAY_SPEAK = {"src/base/error.c"}  # the text of a failed assertion, which ends the program

breaches = []


def breach(path, line, text):
    breaches.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def without_comments_and_strings(text):
    """The same text with comments, strings and character constants blanked, lines kept."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def read_layers():
    layers = {}
    for line in (ROOT / "tests/lint/layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            folder, _, allowed = line.partition(":")
            layers[folder] = allowed.split()
    return layers


def check_includes(path, raw, layers):
    parts = path.relative_to(ROOT).parts
    for match in re.finditer(r'^\s*#\s*include\s+"([^"]+)"', raw, re.M):
        name, line = match.group(1), line_of(raw, match.start())
        if name.startswith("glyd/"):
            continue
        if parts[0] == "include":
            breach(path, line, f'a public header includes "{name}"')
        elif parts[0] == "src":
            folder = name.split("/")[0]
            if "/" not in name or ".." in name:
                breach(path, line, f'"{name}": include as "folder/file.h"')
            elif folder != parts[1] and folder not in layers[parts[1]] and \
                    name not in layers[parts[1]]:
                breach(path, line, f'{parts[1]} may not include "{name}"')


def functions(code):
    """(first line, last line, head) of each braced body that starts in column 0."""
    for match in re.finditer(r"^(?:\{|(?=[^\s#}/].*\)\s*\{$))", code, re.M):
        start = match.start()
        end = code.find("\n}", start)
        if end < 0:
            continue
        head_at = code.rfind("\n\n", 0, start) + 1
        yield line_of(code, start), line_of(code, end + 1), code[head_at:start]


def check_sizes(path, raw, code):
    n_lines = raw.count("\n")
    if n_lines >= FILE_LINES:
        breach(path, n_lines, f"{n_lines} lines: split the file by purpose")
    for first, last, head in functions(code):
        limit = KERNEL_LINES if "__global__" in head else FUNCTION_LINES
        if last - first - 1 >= limit:
            breach(path, first, f"a function of {last - first - 1} lines")


def check_banned(path, code):
    parts = path.relative_to(ROOT).parts
    for match in UNSAFE.finditer(code):
        breach(path, line_of(code, match.start()), f"{match.group(1)} is not used here")
    if parts[0] == "src" and parts[1] in LIBRARIES and str(path.relative_to(ROOT)) not in MAY_SPEAK:
        for match in SPEAKS.finditer(code):
            breach(path, line_of(code, match.start()),
                   f"{match.group(0).strip('( ')} in a library")


def check_globals(path, code):
    if path.relative_to(ROOT).parts[0] != "src" or path.relative_to(ROOT).parts[1] == "cli":
        return
    for match in re.finditer(r"^\s*static\s+(?!inline|const\b|_Noreturn|__)([^;(){}=]*?)(=|;|\[)",
                             code, re.M):
        if " const" not in match.group(1) and "constexpr" not in match.group(1):
            breach(path, line_of(code, match.start(1)), "mutable static state")
    for match in re.finditer(r"^(?!static|extern|typedef|#|return|struct|union|enum|const)"
                             r"[a-z_][\w ]*[\s*]\w+(\s*=[^=]|\s*;|\[)", code, re.M):
        breach(path, line_of(code, match.start()), "a variable outside functions")


def check_header(path, raw):
    licence = re.search(r"^ \* SPDX-License-Identifier: Apache-2\.0$", raw[:4000], re.M)
    if not licence or not raw.startswith("/*"):
        breach(path, 1, "no opening comment with the licence identifier")


def check_documents():
    """What a document or a comment names is there, and no placeholder is left."""
    named = re.compile(r"\b(?:docs|tools|bench|tests|src|include|cmake)/[\w/.-]+\.(?:md|sh|py|c|h|cu|cuh|txt|csv|cmake)\b")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "Makefile"]:
        if not path.exists():
            continue
        text = path.read_text()
        for match in named.finditer(text):
            if not (ROOT / match.group(0)).exists():
                breach(path, line_of(text, match.start()), f"{match.group(0)} does not exist")
        for match in re.finditer(r"^[A-Z_]{6,}$", text, re.M):
            breach(path, line_of(text, match.start()), f"{match.group(0)} is a placeholder")


def check_format(files):
    tool = shutil.which("clang-format")
    if not tool or not files:
        return
    done = subprocess.run([tool, "--dry-run", *map(str, files)], capture_output=True, text=True)
    told = set()
    for line in done.stderr.splitlines():
        match = re.match(r"(.*?):(\d+):\d+: warning: code should be clang-formatted", line)
        if match and match.group(1) not in told:
            told.add(match.group(1))
            breach(Path(match.group(1)), int(match.group(2)), "not formatted: run `make format`")


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.cu",
                             "*.cuh", "*.py", "*.sh"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    layers = read_layers()
    sources = []
    for name in listed:
        path = ROOT / name
        if not path.exists():
            continue
        raw = path.read_text()
        if path.suffix in (".py", ".sh"):
            if raw.count("\n") >= FILE_LINES:
                breach(path, 1, f"{raw.count(chr(10))} lines: split the file by purpose")
            continue
        sources.append(path)
        code = without_comments_and_strings(raw)
        check_includes(path, raw, layers)
        check_sizes(path, raw, code)
        check_banned(path, code)
        check_globals(path, code)
        check_header(path, raw)
    check_documents()
    check_format(sources)
    found = list(dict.fromkeys(breaches))
    for text in found:
        print(text)
    print(f"lint: {len(sources)} files, {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
