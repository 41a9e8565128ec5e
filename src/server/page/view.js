/* view.js - the conversation on screen. An article is made once for a node and then changed, never
   made anew, so that screen readers, selections and scrolling are left in peace. */

const $ = id => document.getElementById(id);
const articles = new Map(); /* node of the shown conversation to its article */
let shown = null; /* the conversation on screen */
let said_of = null; /* the conversation of which it was said that it is being answered */
let follows = true; /* the end of the answer is kept in view */

function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', '#i-' + name);
  svg.append(use);
  return svg;
}

/* A button that is an icon; `act` says what page.js does on a click. */
function button(act, name, parent) {
  const b = node('button', undefined, parent);
  b.type = 'button';
  b.dataset.act = act;
  b.title = name;
  b.setAttribute('aria-label', name);
  b.append(icon(act));
  return b;
}

const is_answering = i => runs.get(shown)?.node === i;

function make_article(i) {
  const n = shown.nodes[i];
  const article = node('article');
  article.className = n.role;
  article.dataset.node = i;
  node('h2', n.role === 'user' ? 'You' : model.name || 'Model', article).className = 'unseen';
  if (n.role === 'assistant') {
    const thought = node('details', undefined, article);
    thought.className = 'thought';
    thought.hidden = true;
    node('summary', 'Thinking', thought);
    article.thought = new Growing(node('div', undefined, thought));
    article.thought.parent.className = 'text';
    article.body = new Growing(node('div', undefined, article));
    article.body.parent.className = 'text';
  } else {
    node('div', n.content, article).className = 'asked';
  }
  const actions = node('div', undefined, article);
  actions.className = 'actions';
  actions.setAttribute('aria-live', 'off');
  return article;
}

const ENDS = {
  stopped: 'Stopped.',
  cut: 'Cut off before it was whole.',
  length: 'Reached the longest answer that the settings allow.',
  context: 'The context is full: this chat has no room for more. Begin a new one.',
};

const short = x => (x < 100 ? x.toFixed(1) : x.toFixed(0));

function figures(n) {
  const rate = n.seconds > 0 && n.tokens > 1 ? `${short((n.tokens - 1) / n.seconds)} tokens/s` : '';
  const used = n.total ? `${n.total}${model.context ? ' of ' + model.context : ''} tokens of context` : '';
  return [rate, used].filter(Boolean).join(', ');
}

/* The row of buttons below a message. */
function fill_actions(article, i) {
  const n = shown.nodes[i], row = article.querySelector('.actions'), is_busy = runs.has(shown);
  const focused = row.contains(document.activeElement) ? document.activeElement.dataset.act : '';
  const all = siblings(shown, i);
  row.hidden = is_answering(i);
  row.replaceChildren();
  if (row.hidden) return;
  if (all.length > 1) {
    button('before', 'Earlier version', row).disabled = is_busy || all[0] === i;
    node('span', `${all.indexOf(i) + 1}/${all.length}`, row).className = 'count';
    button('after', 'Later version', row).disabled = is_busy || all.at(-1) === i;
  }
  button('copy', n.role === 'user' ? 'Copy message' : 'Copy answer', row);
  const is_last = n.next < 0, is_question = n.role === 'user';
  if (is_question) button('edit', 'Edit message', row).disabled = is_busy;
  if (!is_question || is_last) button('again', is_question ? 'Answer this' : 'Regenerate answer', row).disabled = is_busy;
  if (!is_question && is_last && n.content && ['stopped', 'cut', 'length'].includes(n.finish)) button('more', 'Continue answer', row);
  if (!is_question) node('span', figures(n), row).className = 'figures';
  if (!is_question && Object.hasOwn(ENDS, n.finish)) node('p', ENDS[n.finish], row).className = 'end';
  if (focused) (row.querySelector(`[data-act=${focused}]:not(:disabled)`) ?? row.querySelector('button')).focus();
}

function fill(article, i) {
  const n = shown.nodes[i];
  if (n.role === 'user') return;
  const answering = is_answering(i), thought = article.querySelector('.thought');
  thought.hidden = !n.reasoning;
  thought.querySelector('summary').textContent = answering && !n.content ? 'Thinking \u2026' : 'Thinking';
  article.thought.set(n.reasoning);
  article.body.set(n.content);
  article.classList.toggle('waiting', answering && !n.content && !n.reasoning);
  article.classList.toggle('answering', answering);
}

/* Bring the screen up to date with the shown conversation. */
function show() {
  const path = shown ? path_of(shown) : [];
  const talk = $('talk');
  for (const [i, article] of articles) {
    if (path.includes(i)) continue;
    article.remove();
    articles.delete(i);
  }
  for (const i of path) {
    let article = articles.get(i);
    if (!article) {
      article = make_article(i);
      articles.set(i, article);
    }
    if (!article.isConnected) talk.append(article);
    fill(article, i);
    fill_actions(article, i);
  }
  const answering = runs.has(shown);
  if (answering) $('said').textContent = 'Answering';
  else if (said_of === shown) $('said').textContent = 'The answer has ended.';
  said_of = answering ? shown : null;
  talk.setAttribute('aria-busy', answering);
  document.body.classList.toggle('empty', !path.length);
  $('send').hidden = answering;
  $('stop').hidden = !answering;
  show_status();
}

/* Another conversation: nothing of it is news to a screen reader. */
function show_chat(chat) {
  if (chat !== shown) {
    $('talk').setAttribute('aria-live', 'off');
    for (const article of articles.values()) article.remove();
    articles.clear();
    shown = chat;
    follows = true;
    setTimeout(() => $('talk').setAttribute('aria-live', 'polite'), 200);
  }
  show();
  show_list();
  follow();
}

function show_list() {
  const list = $('chats');
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.chat : '';
  list.replaceChildren();
  for (const chat of chats_in_order()) {
    const b = node('button', chat.name, node('li', undefined, list));
    b.type = 'button';
    b.dataset.chat = chat.id;
    b.title = chat.name;
    if (chat === shown) b.setAttribute('aria-current', 'true');
    if (runs.has(chat)) b.className = 'answering';
    if (chat.id === focused) b.focus();
  }
  $('name').textContent = shown.name;
  document.title = shown.nodes.length ? `${shown.name} \u00b7 glyd` : 'glyd';
}

function show_status() {
  const run = runs.get(shown);
  if (!run) $('status').textContent = '';
  else if (!run.first) $('status').textContent = 'Reading \u2026';
  else $('status').textContent = figures(shown.nodes[run.node]);
}

function show_model() {
  $('model').textContent = model.name || 'glyd';
  const held = model.held;
  $('about').textContent = (held ? `${(held.weight_bytes / 1e9).toFixed(2)} GB as ${held.layout}, ` +
    `${held.bits.toFixed(2)} bits a weight, ` : '') + `context ${model.context} tokens`;
}

/* A sentence above the composer; `name` and `act`: a button beside it. */
function notice(text, name, act) {
  $('notice-text').textContent = text;
  $('notice').hidden = !text;
  $('notice-act').hidden = !name;
  $('notice-act').textContent = name ?? '';
  $('notice-act').onclick = act ?? null;
}

/* --- scrolling --- */

function follow() {
  const talk = $('scroll');
  if (follows) talk.scrollTop = talk.scrollHeight;
  $('down').hidden = follows || talk.scrollHeight - talk.scrollTop - talk.clientHeight < 80;
}

/* What has changed of an answer is drawn at most once a frame; a page that nobody sees has no frames,
   and is drawn four times a second. */
let is_due = false;
function changed(chat, i) {
  if (chat !== shown || is_due) return;
  is_due = true;
  const draw = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    is_due = false;
    const article = articles.get(i);
    if (chat !== shown || !article) return;
    fill(article, i);
    show_status();
    follow();
  };
  const frame = requestAnimationFrame(draw), timer = setTimeout(draw, 250);
}
