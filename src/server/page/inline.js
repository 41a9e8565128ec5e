/* inline.js - the marks within a line: code, emphasis, links, breaks. Text can only become text: the
   output is DOM nodes, never HTML. One pass; a run of backticks looks its partner up in a table and
   at most OPEN_MAX emphases are open at once, so no input takes more than about linear time. */

const OPEN_MAX = 32;
const LABEL_DEPTH_MAX = 3;
const SPECIAL = /[\\`*_~[!<&\n$]|https?:\/\//g;
const LINK = /\[((?:[^\]\[\n\\]|\\.){1,500})\]\(\s{0,9}<?([^\s<>()]{1,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,200})?)>?(?:\s{1,9}"[^"\n]{0,500}")?\s{0,9}\)/y;
const ADDRESS = /https?:\/\/[^\s<>"`]{1,2000}/y;
const ENTITY = /&(amp|lt|gt|quot|nbsp|#39);/y;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0', '#39': "'" };
const ESCAPED = /[!"#$%&'*+,\-./:;<=>?@\\^_`{|}~]/; /* not ( and [: these begin a formula */
const CLOSERS = { '\\(': '\\)', '\\[': '\\]', $$: '$$' };
/* What may be beside a mark on its outer side: also scripts that are written without spaces. */
const EDGE = /[\s\p{P}\p{S}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;

function node(tag, text, parent) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}

function link(label, url, parent) {
  let safe = false;
  try { safe = ['http:', 'https:', 'mailto:'].includes(new URL(url).protocol); } catch (e) { /* not one */ }
  if (!safe) {
    parent.append(label, ` (${url})`);
    return;
  }
  const a = node('a', undefined, parent);
  a.append(label);
  a.href = url;
  a.rel = 'noopener noreferrer';
  a.target = '_blank';
}

/* For each length of a run of backticks, where such runs begin. */
function backtick_runs(text) {
  const runs = new Map();
  for (const m of text.matchAll(/`+/g)) {
    if (!runs.has(m[0].length)) runs.set(m[0].length, { at: [], next: 0 });
    runs.get(m[0].length).at.push(m.index);
  }
  return runs;
}

/* A run of marks: may it open and close an emphasis? As CommonMark has it, but for EDGE. */
function flanks(mark, before, after) {
  const is_open = after && !/\s/.test(after) && (!/[\p{P}\p{S}]/u.test(after) || !before || EDGE.test(before));
  const is_close = before && !/\s/.test(before) && (!/[\p{P}\p{S}]/u.test(before) || !after || EDGE.test(after));
  if (mark !== '_') return { is_open, is_close };
  return { is_open: is_open && (!is_close || EDGE.test(before)), is_close: is_close && (!is_open || EDGE.test(after)) };
}

/* Close what can be closed by the run `closer`, a Text node of marks, and return what is left. */
function close_emphasis(open, closer, mark) {
  for (let k = open.length - 1; k >= 0 && closer.data; k--) {
    const opener = open[k];
    if (opener.mark !== mark) continue;
    open.length = k + 1; /* openers within are plain text from now on */
    while (opener.text.data && closer.data) {
      const n = mark === '~' ? 2 : Math.min(2, opener.text.data.length, closer.data.length);
      if (opener.text.data.length < n || closer.data.length < n) break;
      const e = node(mark === '~' ? 's' : n === 2 ? 'strong' : 'em');
      while (opener.text.nextSibling !== closer) e.append(opener.text.nextSibling);
      opener.text.after(e);
      opener.text.data = opener.text.data.slice(n);
      closer.data = closer.data.slice(n);
    }
    if (!opener.text.data) open.length = k;
  }
}

function emphasis(text, at, parent, open) {
  const mark = text[at];
  let end = at;
  while (text[end] === mark) end++;
  const run = document.createTextNode(text.slice(at, end));
  parent.append(run);
  if (end - at > 3 || (mark === '~' && end - at !== 2)) return end;
  const { is_open, is_close } = flanks(mark, text[at - 1], text[end]);
  if (is_close) close_emphasis(open, run, mark);
  if (is_open && run.data && open.length < OPEN_MAX) open.push({ mark, text: run });
  return end;
}

function code_span(text, at, parent, runs) {
  let end = at;
  while (text[end] === '`') end++;
  const run = runs.get(end - at);
  while (run.next < run.at.length && run.at[run.next] < end) run.next++;
  if (run.next === run.at.length) {
    parent.append(text.slice(at, end));
    return end;
  }
  const close = run.at[run.next];
  let code = text.slice(end, close).replace(/\n/g, ' ');
  if (/^ .*[^ ].* $/.test(code)) code = code.slice(1, -1);
  node('code', code, parent);
  return close + end - at;
}

/* A formula is shown as it was written, so that no mark within it is taken for emphasis. */
function formula(text, at, parent, without) {
  const begin = text.slice(at, at + 2), close = CLOSERS[begin];
  const end = without.has(close) ? -1 : text.indexOf(close, at + 2);
  if (end < 0) {
    without.add(close);
    parent.append(begin);
    return at + 2;
  }
  node('span', text.slice(at, end + 2), parent).className = 'math';
  return end + 2;
}

function bare_address(text, at, parent) {
  ADDRESS.lastIndex = at;
  let url = ADDRESS.exec(text)?.[0];
  if (!url) return 0;
  let end = url.length;
  while (/[.,;:!?'*_~\]]/.test(url[end - 1]) || (url[end - 1] === ')' && !url.slice(0, end - 1).includes('('))) end--;
  url = url.slice(0, end);
  if (!/:\/\/./.test(url)) return 0;
  link(url, url, parent);
  return at + end;
}

/* Append `text` to `parent` with its marks as elements. */
function inline(text, parent, depth = 0) {
  const runs = backtick_runs(text), open = [], without = new Set();
  let at = 0;
  for (;;) {
    SPECIAL.lastIndex = at;
    const m = SPECIAL.exec(text);
    const i = m ? m.index : text.length;
    if (i > at) parent.append(m?.[0] === '\n' ? text.slice(at, i).trimEnd() : text.slice(at, i));
    if (!m) return;
    at = special(text, i, parent, { runs, open, without, depth });
    if (at <= i) {
      parent.append(m[0]);
      at = i + m[0].length;
    }
  }
}

/* What begins at `i`: append it and return where it ends; 0: nothing special after all. */
function special(text, i, parent, state) {
  const c = text[i];
  if (CLOSERS[text.slice(i, i + 2)]) return formula(text, i, parent, state.without);
  switch (c) {
  case '`': return code_span(text, i, parent, state.runs);
  case '*': case '_': case '~': return emphasis(text, i, parent, state.open);
  case 'h': return state.depth ? 0 : bare_address(text, i, parent);
  case '\n': node('br', undefined, parent); return i + 1;
  case '\\':
    if (text[i + 1] === '\n') return i + 1;
    if (!text[i + 1] || !ESCAPED.test(text[i + 1])) return 0;
    parent.append(text[i + 1]);
    return i + 2;
  case '&':
    ENTITY.lastIndex = i;
    if (!ENTITY.test(text)) return 0;
    ENTITY.lastIndex = i;
    parent.append(ENTITIES[ENTITY.exec(text)[1]]);
    return ENTITY.lastIndex;
  case '<': {
    const end = bare_address(text, i + 1, document.createDocumentFragment());
    return end && text[end] === '>' ? bare_address(text, i + 1, parent) + 1 : 0;
  }
  case '!': case '[': {
    LINK.lastIndex = i + (c === '!');
    const m = state.depth < LABEL_DEPTH_MAX ? LINK.exec(text) : null; /* an image is not fetched */
    if (!m) return 0;
    const label = document.createDocumentFragment();
    inline(m[1], label, state.depth + 1);
    link(label, m[2], parent);
    return i + (c === '!') + m[0].length;
  }
  default: return 0;
  }
}
