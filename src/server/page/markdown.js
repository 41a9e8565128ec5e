/* markdown.js - blocks of Markdown to DOM nodes, and an answer that grows.

   find_block() tells the block that begins at a line, from the lines alone, and build() makes its
   node; where a block ends never depends on what came before it. So of a growing answer only the
   last block is ever looked at again (Growing). */

const NESTING_MAX = 12;
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;

const indent_of = line => line.length - line.trimStart().length;
const is_blank = line => !line.trim();

function starts_block(lines, i) {
  const line = lines[i];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
    /^ {0,3}(?:[-*+]|1[.)]) +\S/.test(line) || table_columns(lines, i) !== null;
}

/* --- where a block ends --- */

/* The line that closes the fence which line i opens, or the end of the text. */
function fence_close(lines, i, m) {
  const close = new RegExp('^ {0,3}\\' + m[2][0] + '{' + m[2].length + ',}[ \\t]*$');
  let k = i + 1;
  while (k < lines.length && !close.test(lines[k])) k++;
  return k;
}

/* Cells of a row of a table: cut at each "|" that is not escaped. */
function cells(line) {
  const found = line.trim().replace(/^\|/, '').match(/(?:[^|\\]|\\.?)+|\|/g) ?? [];
  const row = [''];
  for (const part of found) {
    if (part === '|') row.push('');
    else row[row.length - 1] = part.replaceAll('\\|', '|').trim();
  }
  if (row.length > 1 && row.at(-1) === '' && line.trimEnd().endsWith('|')) row.pop();
  return row;
}

/* The alignment of each column where a table begins at line i, else null. */
function table_columns(lines, i) {
  if (!lines[i].includes('|') || i + 1 >= lines.length || !/^[\s|:-]*-[\s|:-]*$/.test(lines[i + 1])) return null;
  const marks = cells(lines[i + 1]);
  if (marks.length !== cells(lines[i]).length || !marks.every(m => /^:?-+:?$/.test(m))) return null;
  return marks.map(m => (m.endsWith(':') ? (m.startsWith(':') ? 'center' : 'right') : ''));
}

/* Lines of a list's item after its first: those that are indented, blank ones between such, and
   those that go on with its paragraph. */
function item_end(lines, i, marker) {
  let end = i + 1;
  for (let k = i + 1; k < lines.length; k++) {
    if (is_blank(lines[k])) continue;
    if (indent_of(lines[k]) < marker + 2 &&
        (k > end || is_blank(lines[k - 1]) || ITEM.test(lines[k]) || starts_block(lines, k))) break;
    end = k + 1;
  }
  return end;
}

function list_at(lines, i, m) {
  const is_ordered = /\d/.test(m[2]), type = m[2].at(-1);
  const list = { kind: 'list', is_ordered, first: parseInt(m[2], 10), items: [], is_loose: false };
  for (let k = i; k < lines.length;) {
    const own = lines[k].match(ITEM);
    if (!own || own[2].at(-1) !== type || RULE.test(lines[k]) || own[1].length > m[1].length + 1) break;
    const end = item_end(lines, k, own[1].length);
    const width = Math.min(own[0].length, own[1].length + own[2].length + 4);
    list.items.push([lines[k].slice(width), ...lines.slice(k + 1, end).map(l => l.slice(Math.min(indent_of(l), width)))]);
    list.end = end;
    k = end;
    while (k < lines.length && is_blank(lines[k])) k++;
    if (k > end && k < lines.length && lines[k].match(ITEM)?.[2].at(-1) === type) list.is_loose = true;
  }
  list.is_loose = list.is_loose || list.items.some(item => item.some(is_blank));
  return list;
}

/* The block that begins at line i, which is not blank. */
function find_block(lines, i, depth) {
  const line = lines[i];
  let m, end = i + 1;
  if ((m = line.match(FENCE))) {
    const close = fence_close(lines, i, m);
    return { kind: 'code', end: Math.min(close + 1, lines.length), is_whole: close < lines.length, language: m[3].trim().split(/\s/)[0],
      text: lines.slice(i + 1, close).map(l => l.slice(Math.min(indent_of(l), m[1].length))).join('\n') };
  }
  if ((m = line.match(HEADING))) {
    let text = line.slice(m[0].length).trim(), cut = text.length;
    while (text[cut - 1] === '#') cut--;
    if (cut === 0 || text[cut - 1] === ' ') text = text.slice(0, cut).trim();
    return { kind: 'heading', end, level: m[1].length, text };
  }
  if (RULE.test(line)) return { kind: 'rule', end };
  if (QUOTE.test(line) && depth < NESTING_MAX) {
    while (end < lines.length && QUOTE.test(lines[end])) end++;
    return { kind: 'quote', end, lines: lines.slice(i, end).map(l => l.replace(QUOTE, '')) };
  }
  if ((m = line.match(ITEM)) && m[1].length < 4 && depth < NESTING_MAX) return list_at(lines, i, m);
  const columns = table_columns(lines, i);
  if (columns) {
    end = i + 2;
    while (end < lines.length && !is_blank(lines[end]) && lines[end].includes('|')) end++;
    return { kind: 'table', end, columns, head: cells(line), rows: lines.slice(i + 2, end).map(cells) };
  }
  while (end < lines.length && !is_blank(lines[end]) && !starts_block(lines, end)) end++;
  return { kind: 'paragraph', end, text: lines.slice(i, end).map(l => l.trimStart()).join('\n').trimEnd() };
}

/* --- a block's node --- */

function build_code(block) {
  const box = node('div');
  box.className = 'code';
  const bar = node('div', undefined, box);
  node('span', block.language || 'text', bar);
  const copy = node('button', 'Copy', bar);
  copy.type = 'button';
  copy.className = 'copy-code';
  const pre = node('pre', undefined, box);
  pre.tabIndex = 0; /* it scrolls by keys */
  const code = node('code', undefined, pre);
  if (block.is_whole) highlight(block.text, block.language, code);
  else code.textContent = block.text; /* it still grows, and is only appended to */
  return box;
}

function build_table(block) {
  const box = node('div');
  box.className = 'table';
  box.tabIndex = 0;
  const table = node('table', undefined, box);
  const row = (tag, texts, parent) => {
    const tr = node('tr', undefined, parent);
    block.columns.forEach((align, k) => {
      const cell = node(tag, undefined, tr);
      if (align) cell.className = align;
      inline(texts[k] ?? '', cell);
    });
  };
  row('th', block.head, node('thead', undefined, table));
  const body = node('tbody', undefined, table);
  for (const texts of block.rows) row('td', texts, body);
  return box;
}

function build_list(block, depth) {
  const list = node(block.is_ordered ? 'ol' : 'ul');
  if (block.is_ordered && block.first !== 1) list.start = block.first;
  for (const item of block.items) {
    const li = node('li', undefined, list);
    const task = item[0].match(/^\[([ xX])\] +/);
    markdown_lines(task ? [item[0].slice(task[0].length), ...item.slice(1)] : item, li, depth + 1);
    for (const p of block.is_loose ? [] : li.querySelectorAll(':scope > p')) p.replaceWith(...p.childNodes);
    if (!task) continue;
    li.className = 'task';
    li.prepend(task[1] === ' ' ? '\u2610 ' : '\u2611 ');
  }
  return list;
}

function build(block, depth) {
  switch (block.kind) {
  case 'code': return build_code(block);
  case 'table': return build_table(block);
  case 'list': return build_list(block, depth);
  case 'rule': return node('hr');
  case 'quote': {
    const quote = node('blockquote');
    markdown_lines(block.lines, quote, depth + 1);
    return quote;
  }
  default: {
    const e = node(block.kind === 'heading' ? 'h' + Math.min(6, block.level + 2) : 'p');
    inline(block.text, e);
    return e;
  }
  }
}

function markdown_lines(lines, parent, depth) {
  for (let i = 0; i < lines.length;) {
    if (is_blank(lines[i])) { i++; continue; }
    const block = find_block(lines, i, depth);
    parent.append(build(block, depth));
    i = block.end;
  }
}

/* --- an answer that grows --- */

/* Change `old` into `now` and leave alone what is equal: a selection in it stays, too. */
function morph(old, now) {
  if (old.isEqualNode(now)) return;
  if (old.nodeType === Node.TEXT_NODE && now.nodeType === Node.TEXT_NODE) {
    if (now.data.startsWith(old.data)) old.appendData(now.data.slice(old.data.length));
    else old.data = now.data;
    return;
  }
  if (old.nodeName !== now.nodeName || !old.cloneNode(false).isEqualNode(now.cloneNode(false))) {
    old.replaceWith(now);
    return;
  }
  let a = old.firstChild;
  for (let b = now.firstChild; b;) {
    const next_a = a?.nextSibling, next_b = b.nextSibling;
    if (a) morph(a, b);
    else old.append(b);
    a = next_a;
    b = next_b;
  }
  while (a) {
    const next = a.nextSibling;
    a.remove();
    a = next;
  }
}

/* Markdown in `parent` that is set again and again, mostly to a text that goes on. */
class Growing {
  constructor(parent) {
    this.parent = parent;
    this.text = '';
    this.settled = 0; /* characters that belong to finished blocks */
    this.n_settled = 0; /* nodes of these */
  }

  set(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) {
      this.parent.replaceChildren();
      this.settled = this.n_settled = 0;
    }
    this.text = text;
    const lines = text.slice(this.settled).split('\n');
    let at = this.n_settled, settled = 0;
    for (let i = 0; i < lines.length;) {
      if (is_blank(lines[i])) { i++; continue; }
      const block = find_block(lines, i, 0);
      const made = build(block, 0), old = this.parent.childNodes[at];
      if (old) morph(old, made);
      else this.parent.append(made);
      at++;
      for (i = block.end; i < lines.length && is_blank(lines[i]);) i++;
      /* A block has ended for good once a whole line of another one is there. */
      if (i < lines.length - 1) {
        settled = i;
        this.n_settled = at;
      }
    }
    while (this.parent.childNodes.length > at) this.parent.lastChild.remove();
    for (const line of lines.slice(0, settled)) this.settled += line.length + 1;
  }
}
