/* store.js - conversations, kept in this browser.

   A conversation is a tree, so that an edited question or a new answer takes nothing away:
   nodes[i] = { parent, next, role, content, reasoning, ... }. A node comes after its parent; `next`
   is the child that is shown, -1 none, and `first` is that of the conversation itself.

   Each has an entry of localStorage to itself, "REVISION\nJSON", so two tabs may write different
   ones at once. Where another tab has written the same one, save() goes on with a copy. */

const STORE = 'glyd.chat.';
const SETTINGS = {
  temperature: { label: 'Temperature', min: 0, max: 100, step: 0.1, hint: '0 takes the likeliest' },
  top_p: { label: 'Top p', min: 0.01, max: 1, step: 0.01, hint: 'share of the probability' },
  top_k: { label: 'Top k', min: 0, max: 1e6, step: 1, hint: '0 takes all' },
  min_p: { label: 'Min p', min: 0, max: 1, step: 0.01, hint: 'of the likeliest' },
  max_tokens: { label: 'Longest answer', min: 1, max: 1e8, step: 1, hint: 'tokens' },
  seed: { label: 'Seed', min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, hint: 'same seed, same answer' },
};
const UNNAMED = 'New chat';
const chats = new Map(); /* id to conversation, all that are kept and the new one */

function make_id() { return Date.now().toString(36) + Math.random().toString(36).slice(2, 10); }

/* A new conversation, with the settings of another one. */
function make_chat(like) {
  return { id: make_id(), rev: '', at: Date.now(), name: UNNAMED, system: like?.system ?? '',
    settings: { ...like?.settings }, thinking: like?.thinking ?? '', nodes: [], first: -1 };
}

function setting_problem(name, value) {
  const s = SETTINGS[name];
  if (typeof value !== 'number' || !(value >= s.min && value <= s.max))
    return `${s.label} must be from ${s.min} to ${s.max.toLocaleString('en')}`;
  return s.step === 1 && !Number.isInteger(value) ? `${s.label} must be a whole number` : '';
}

function checked_node(n, i) {
  if (typeof n !== 'object' || n === null || !Number.isInteger(n.parent) || n.parent < -1 || n.parent >= i ||
      !['user', 'assistant'].includes(n.role) || typeof n.content !== 'string') return null;
  const text = x => (typeof x === 'string' ? x : '');
  const count = x => (Number.isFinite(x) && x >= 0 ? x : 0);
  return { parent: n.parent, next: -1, role: n.role, content: n.content, reasoning: text(n.reasoning),
    finish: text(n.finish), tokens: count(n.tokens), seconds: count(n.seconds), total: count(n.total) };
}

/* Whatever was kept or imported, as a conversation with nothing in it that the page does not
   expect; null where it is none. */
function checked_chat(kept) {
  if (typeof kept !== 'object' || kept === null || !Array.isArray(kept.nodes)) return null;
  const chat = make_chat();
  if (typeof kept.name === 'string' && kept.name.trim()) chat.name = kept.name.trim().slice(0, 200);
  if (typeof kept.system === 'string') chat.system = kept.system;
  if (['', 'on', 'off'].includes(kept.thinking)) chat.thinking = kept.thinking;
  if (Number.isFinite(kept.at)) chat.at = kept.at;
  for (const name in SETTINGS) {
    const value = kept.settings?.[name];
    if (value !== undefined && !setting_problem(name, value)) chat.settings[name] = value;
  }
  for (const [i, n] of kept.nodes.entries()) {
    const node = checked_node(n, i);
    if (!node) return null;
    chat.nodes.push(node);
  }
  const last = chat.nodes.at(-1); /* the page was closed before the answer's first word */
  if (last?.role === 'assistant' && !last.content && !last.reasoning) chat.nodes.pop();
  chat.nodes.forEach((n, i) => choose(chat, i)); /* the newest, and then those that were shown */
  const shown = [kept.first, ...kept.nodes.map(n => n.next)];
  shown.forEach((child, i) => {
    if (Number.isInteger(child) && chat.nodes[child]?.parent === i - 1) choose(chat, child);
  });
  return chat;
}

function choose(chat, i) {
  const parent = chat.nodes[i].parent;
  if (parent < 0) chat.first = i;
  else chat.nodes[parent].next = i;
}

/* The nodes that are shown, from the first question on. */
function path_of(chat) {
  const path = [];
  for (let i = chat.first; i >= 0; i = chat.nodes[i].next) path.push(i);
  return path;
}

function siblings(chat, i) {
  return [...chat.nodes.keys()].filter(k => chat.nodes[k].parent === chat.nodes[i].parent);
}

function add_node(chat, parent, role, content) {
  const i = chat.nodes.length, instead = parent < 0 ? chat.first : chat.nodes[parent].next;
  chat.nodes.push({ parent, next: -1, role, content, reasoning: '', finish: '', tokens: 0, seconds: 0, total: 0, instead });
  choose(chat, i);
  return i;
}

/* Take back the last node, which was added since the page was opened; what was shown in its place
   before is shown again. */
function remove_last(chat) {
  const { parent, instead } = chat.nodes.pop();
  if (parent < 0) chat.first = instead;
  else chat.nodes[parent].next = instead;
}

function read_chat(key) {
  const kept = localStorage.getItem(key);
  if (kept === null) return null;
  const end = kept.indexOf('\n');
  try {
    const chat = checked_chat(JSON.parse(kept.slice(end + 1)));
    return chat && Object.assign(chat, { id: key.slice(STORE.length), rev: kept.slice(0, end) });
  } catch (e) { return null; }
}

/* Read all that is kept. Returns how many entries were damaged; they are left where they are. */
function load_chats() {
  let n_damaged = 0;
  try {
    for (const key of Object.keys(localStorage).filter(k => k.startsWith(STORE))) {
      const chat = read_chat(key);
      if (chat) chats.set(chat.id, chat);
      else n_damaged++;
    }
  } catch (e) { /* a browser that keeps nothing */ }
  return n_damaged;
}

/* Keep a conversation, unless it was deleted. Returns what the user should know: '', or a sentence. */
function save_chat(chat) {
  let said = '';
  if (chats.get(chat.id) !== chat) return said;
  try {
    const kept = localStorage.getItem(STORE + chat.id);
    if (kept !== null && !kept.startsWith(chat.rev + '\n')) {
      chats.delete(chat.id);
      chat.id = make_id();
      chat.name += ' (copy)';
      chats.set(chat.id, chat);
      said = 'Another tab has changed this chat: what is shown here goes on as a copy.';
    }
    chat.rev = make_id();
    const { id, rev, ...rest } = chat;
    localStorage.setItem(STORE + id, rev + '\n' + JSON.stringify(rest));
  } catch (e) {
    said = 'This browser keeps no more: export this chat, or delete others.';
  }
  return said;
}

function forget_chat(chat) {
  chats.delete(chat.id);
  chat.rev = '';
  try { localStorage.removeItem(STORE + chat.id); } catch (e) { /* it was never kept */ }
}

/* What an unnamed conversation is called once something was asked. */
const name_after = text => text.trim().split('\n')[0].slice(0, 60);

/* The newest first. */
function chats_in_order() { return [...chats.values()].sort((a, b) => b.at - a.at); }

/* --- out of the browser --- */

function as_markdown(chat) {
  const parts = ['# ' + chat.name];
  if (chat.system) parts.push('## System prompt', chat.system);
  for (const i of path_of(chat)) {
    const n = chat.nodes[i];
    parts.push(n.role === 'user' ? '## You' : '## Model');
    if (n.reasoning) parts.push('<details><summary>Thinking</summary>', n.reasoning.trim(), '</details>');
    if (n.content) parts.push(n.content.trim());
  }
  return parts.join('\n\n') + '\n';
}

function as_json(chat) {
  const { id, rev, ...rest } = chat;
  return JSON.stringify({ format: 'glyd-chat', ...rest }, null, 2) + '\n';
}
