"""Texts as models write them, and the HTML that the chat page is to show for them.

SPDX-License-Identifier: Apache-2.0
"""
CASES = [
    ("plain", "<p>plain</p>"),
    ("two\nlines", "<p>two<br>lines</p>"),
    ("one\n\ntwo\n\n\nthree", "<p>one</p><p>two</p><p>three</p>"),
    ("**bold** *it* __bold__ _it_ ~~gone~~", "<p><strong>bold</strong> <em>it</em> <strong>bold</strong>"
     " <em>it</em> <s>gone</s></p>"),
    ("***both*** **a *b* c**", "<p><em><strong>both</strong></em> <strong>a <em>b</em> c</strong></p>"),
    ("snake_case_name 2 * 3 * 4 **", "<p>snake_case_name 2 * 3 * 4 **</p>"),
    ("**中文。**中文", "<p><strong>中文。</strong>中文</p>"),
    ("**unclosed and *half*", "<p>**unclosed and <em>half</em></p>"),
    ("`code` ``a ` b`` `un", "<p><code>code</code> <code>a ` b</code> `un</p>"),
    ("`**not bold**` \\*not it\\* \\`x\\`", "<p><code>**not bold**</code> *not it* `x`</p>"),
    ("a &lt; b &amp;&amp; c", "<p>a &lt; b &amp;&amp; c</p>"),
    ("[x](https://a.b/c_(d)) https://a.b/?q=1. (https://a.b) <https://a.b/c>",
     '<p><a href="https://a.b/c_(d)" rel="noopener noreferrer" target="_blank">x</a> '
     '<a href="https://a.b/?q=1" rel="noopener noreferrer" target="_blank">https://a.b/?q=1</a>. ('
     '<a href="https://a.b" rel="noopener noreferrer" target="_blank">https://a.b</a>) '
     '<a href="https://a.b/c" rel="noopener noreferrer" target="_blank">https://a.b/c</a></p>'),
    ("[**b** `c`](https://a.b \"title\")",
     '<p><a href="https://a.b" rel="noopener noreferrer" target="_blank"><strong>b</strong> '
     "<code>c</code></a></p>"),
    ("[x](javascript:alert(1)) [y]", "<p>x (javascript:alert(1)) [y]</p>"),
    ("# One\n## Two ##\n### Three # x\ntext", "<h3>One</h3><h4>Two</h4><h5>Three # x</h5><p>text</p>"),
    ("#no heading", "<p>#no heading</p>"),
    ("a\n\n---\n\nb\n***", "<p>a</p><hr><p>b</p><hr>"),
    ("```py\nx = 1\n\n    y\n```\nafter", '<div class="code"><pre><code>x = <span class="number">1</span>\n\n    y</code></pre></div>'
     "<p>after</p>"),
    ("```\nnever closed\n# x", '<div class="code"><pre><code>never closed\n# x</code></pre></div>'),
    ("````md\n```\ninner\n```\n````", '<div class="code"><pre><code>```\ninner\n```</code></pre></div>'),
    ("~~~\n```\n~~~", '<div class="code"><pre><code>```</code></pre></div>'),
    ("text\n```c\nint x;\n```", '<p>text</p><div class="code"><pre><code><span class="word">int</span> x;</code></pre></div>'),
    ("```c\n/* for */ int f = \"if\" + 0x1f; // x\n```",
     '<div class="code"><pre><code><span class="comment">/* for */</span> <span class="word">int</span> f = '
     '<span class="string">"if"</span> + <span class="number">0x1f</span>; <span class="comment">// x</span>'
     "</code></pre></div>"),
    ("```constructor\nint x;\n```", '<div class="code"><pre><code>int x;</code></pre></div>'),
    ("- a\n- b\n* c", "<ul><li>a</li><li>b</li></ul><ul><li>c</li></ul>"),
    ("3. a\n4. b\n", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("- a\n  - b\n    - c\n  - d\n- e", "<ul><li>a<ul><li>b<ul><li>c</li></ul></li><li>d</li></ul></li>"
     "<li>e</li></ul>"),
    ("1. a\n  - b\n  - c\n2. d", "<ol><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ol>"),
    ("1. a\n\n   more\n\n2. b", "<ol><li><p>a</p><p>more</p></li><li><p>b</p></li></ol>"),
    ("1. a\n   ```sh\n   ls\n     -l\n   ```\n2. b",
     '<ol><li>a<div class="code"><pre><code>ls\n  -l</code></pre></div></li><li>b</li></ol>'),
    ("- a\ngoes on\n\nparagraph", "<ul><li>a<br>goes on</li></ul><p>paragraph</p>"),
    ("- [ ] to do\n- [x] done", '<ul><li class="task">☐ to do</li><li class="task">☑ done</li></ul>'),
    ("Items:\n- a\n- b", "<p>Items:</p><ul><li>a</li><li>b</li></ul>"),
    ("In 1984. Then\n1984. not a list", "<p>In 1984. Then<br>1984. not a list</p>"),
    ("> a\n> **b**\n>\n> - c\n\nd", "<blockquote><p>a<br><strong>b</strong></p><ul><li>c</li></ul>"
     "</blockquote><p>d</p>"),
    ("| a | b |\n|:-:|--:|\n| `1` | **2** |\n| 3 |\n\nafter",
     '<div class="table"><table><thead><tr><th class="center">a</th><th class="right">b</th></tr></thead>'
     '<tbody><tr><td class="center"><code>1</code></td><td class="right"><strong>2</strong></td></tr>'
     '<tr><td class="center">3</td><td class="right"></td></tr></tbody></table></div><p>after</p>'),
    ("Table:\na | b\n--|--\n1 \\| x | 2",
     '<p>Table:</p><div class="table"><table><thead><tr><th>a</th><th>b</th></tr></thead>'
     "<tbody><tr><td>1 | x</td><td>2</td></tr></tbody></table></div>"),
    ("a | b\nno table", "<p>a | b<br>no table</p>"),
    ("cost \\(a_1 * b_1 * c\\) or $$x_1^2_3$$, $5 and $6",
     '<p>cost <span class="math">\\(a_1 * b_1 * c\\)</span> or <span class="math">$$x_1^2_3$$</span>, '
     "$5 and $6</p>"),
    ("<b>no HTML</b> &copy;", "<p>&lt;b&gt;no HTML&lt;/b&gt; &amp;copy;</p>"),
    ("hard  \nbreak\\\nhere", "<p>hard<br>break<br>here</p>"),
]
