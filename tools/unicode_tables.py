#!/usr/bin/env python3
"""Write src/text/unicode_tables.h: where Unicode versions differ in what tokenizers see.

    pip install unicodedata2==16.0.0
    tools/unicode_tables.py > src/text/unicode_tables.h

Python 3.11's unicodedata (14.0) and Perl 5.36 (ages up to 14.0) are the other two sources.
"""
import subprocess
import sys
import unicodedata

import unicodedata2

OLD, NEW = "14.0.0", "16.0.0"


def points():
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def ranges(pairs):
    """[(point, value)] in order to [first, last, value] with runs of one value joined."""
    out = []
    for c, value in pairs:
        if out and out[-1][1] == c - 1 and out[-1][2] == value:
            out[-1][1] = c
        else:
            out.append([c, c, value])
    return out


def added_since_14():
    return ranges((c, unicodedata2.category(chr(c))) for c in points()
                  if unicodedata.category(chr(c)) != unicodedata2.category(chr(c)))


def normalised_since_9():
    """Points unknown to Unicode 9.0 that take part in normalisation in later versions."""
    script = 'for (0..0x10ffff) { next if $_ >= 0xd800 && $_ < 0xe000;' \
             ' print "$_\\n" if chr($_) =~ /\\p{Present_In=9.0}/ }'
    known = set(map(int, subprocess.run(["perl", "-e", script], capture_output=True, check=True,
                                        text=True).stdout.split()))
    found = set()
    for c in points():
        s = chr(c)
        if c in known:
            continue
        if unicodedata2.combining(s) or unicodedata2.normalize("NFKD", s) != s:
            found.add(c)
        parts = unicodedata2.decomposition(s)
        if parts and not parts.startswith("<"):
            found.update(p for p in (int(x, 16) for x in parts.split()) if p not in known)
    return ranges((c, None) for c in sorted(found))


def rows(items):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            yield line
            line = "   "
        line += " " + item + ","
    yield line


def main():
    if (unicodedata.unidata_version, unicodedata2.unidata_version) != (OLD, NEW):
        sys.exit(f"needs unicodedata {OLD} (Python 3.11) and unicodedata2 {NEW}")
    print("""/* unicode_tables.h - where Unicode versions differ; written by tools/unicode_tables.py.
 * SPDX-License-Identifier: Apache-2.0
 */
/* clang-format off */

/* Points whose general category differs between Unicode 14.0 and 16.0, with that of 16.0. */
static const glyd_unicode_range added_since_14[] = {""")
    for row in rows(f'{{0x{a:x}, 0x{b:x}, "{k}"}}' for a, b, k in added_since_14()):
        print(row)
    print("""};

/* Points newer than Unicode 9.0 that take part in normalisation. */
static const glyd_unicode_range normalised_since_9[] = {""")
    for row in rows(f'{{0x{a:x}, 0x{b:x}, ""}}' for a, b, _ in normalised_since_9()):
        print(row)
    print("};\n/* clang-format on */")


main()
