"""Each rule of lint.py finds a breach that was planted for it."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
HEAD = "/* x.c - a planted file.\n * SPDX-License-Identifier: Apache-2.0\n */\n"

PLANTED = [
    ("src/codec/x.c", HEAD + '#include "engine/engine.h"\n', "codec may not include"),
    ("src/codec/x.c", HEAD + '#include "format.h"\n', 'include as "folder/file.h"'),
    ("include/glyd/x.h", HEAD + '#include "base/buf.h"\n', "a public header includes"),
    ("src/base/x.c", HEAD + "void f(void)\n{\n    printf(0);\n}\n", "printf in a library"),
    ("src/save/x.c", HEAD + "void f(void)\n{\n    (void)getenv(0);\n}\n", "getenv in a library"),
    ("src/cli/x.c", HEAD + "void f(char *a)\n{\n    strcpy(a, a);\n}\n", "strcpy is not used"),
    ("src/base/x.c", HEAD + "static int counter = 0;\n", "mutable static state"),
    ("src/base/x.c", HEAD + "void f(void)\n{\n    static int n;\n    n++;\n}\n",
     "mutable static state"),
    ("src/base/x.c", HEAD + "int counter = 0;\n", "a variable outside functions"),
    ("src/base/x.c", HEAD + "void f(int a)\n{\n" + "    a++;\n" * 80 + "}\n",
     "a function of 80 lines"),
    ("src/base/x.c", HEAD + "/* long */\n" * 1000, "lines: split the file"),
    ("src/base/x.c", "int f(void);\n", "no opening comment"),
]


def lint(root):
    return subprocess.run([sys.executable, HERE / "lint.py", root], capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tests/lint").mkdir(parents=True)
    shutil.copy(HERE / "layers.txt", tmp_path / "tests/lint")
    shutil.copy(HERE.parents[1] / ".clang-format", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def plant(tree, name, text):
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("name,text,message", PLANTED, ids=[m for _, _, m in PLANTED])
def test_finds(tree, name, text, message):
    plant(tree, name, text)
    done = lint(tree)
    assert done.returncode == 1
    assert message in done.stdout


def test_accepts(tree):
    plant(tree, "src/codec/x.c", HEAD + '#include "codec/x.h"\n#include "base/buf.h"\n\n'
          "static const int limit = 3;\n\nint f(int a)\n{\n    /* printf( */\n"
          '    return a + limit + (int)sizeof "getenv(";\n}\n')
    done = lint(tree)
    assert done.returncode == 0, done.stdout
