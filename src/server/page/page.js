/* page.js - what people do: send, stop, edit, regenerate, keep, export. */

const SAVE_MS = 1000; /* how much of an answer a crash of the browser may cost */
let leaving = false;

/* --- ask and answer --- */

function keep(chat) {
  const said = save_chat(chat);
  if (said) notice(said);
  show_list();
}

async function answer(chat, i, goes_on) {
  const n = chat.nodes[i], end_before = n.finish, length_before = n.content.length + n.reasoning.length;
  let saved = Date.now();
  const made = make_answer(chat, i, goes_on, () => {
    changed(chat, i);
    if (Date.now() - saved < SAVE_MS) return;
    saved = Date.now();
    const said = save_chat(chat);
    if (said) notice(said);
  });
  follows = true;
  show();
  show_list();
  follow();
  const error = await made;
  if (leaving) return; /* it is kept as it was when the page was left */
  const is_empty = n.content.length + n.reasoning.length === length_before && ['cut', 'stopped'].includes(n.finish);
  if (error) failed(error);
  if (is_empty && goes_on) n.finish = end_before;
  const lost = is_empty && !goes_on ? take_back(chat, i) : null;
  chat.at = Date.now();
  if (chat.nodes.length) keep(chat);
  else begin_anew(chat, lost);
  show_list();
  if (chat !== shown) return;
  show();
  follow();
  if (lost) give_back(lost);
}

/* An answer that never began goes, and the question with it if it was asked just now, so that
   neither is in the next request. Returns that question. */
function take_back(chat, i) {
  const asked = chat.nodes[i].parent, question = chat.nodes[asked];
  remove_last(chat);
  if (chat.nodes.length - 1 !== asked || question.instead === undefined || question.next >= 0) return null;
  remove_last(chat);
  return question;
}

/* A conversation whose only question was taken back is a new one again. */
function begin_anew(chat, question) {
  forget_chat(chat);
  if (chat.name === name_after(question.content)) chat.name = UNNAMED;
  if (chat === shown) chats.set(chat.id, chat);
}

/* A question goes back to where it was typed. */
function give_back(question) {
  if (question.instead >= 0) {
    edit(question.instead);
    document.activeElement.value = question.content;
  } else {
    set_text($('text').value ? question.content + '\n\n' + $('text').value : question.content);
  }
}

function failed(error) {
  if (error.status === 401) {
    notice(error.message, 'Enter it', () => open_settings('key'));
    $('key-said').textContent = api_key() ? 'This key is not the right one.' : error.message;
    open_settings('key');
  } else if (/maximum context length/.test(error.message)) {
    notice(error.message, 'New chat', new_chat);
  } else {
    notice(error.message);
  }
}

/* Ask `text` after node `parent` (-1: as the first question). */
function ask(chat, parent, text) {
  if (runs.has(chat)) return;
  const i = add_node(chat, parent, 'user', text);
  if (chat.name === UNNAMED) chat.name = name_after(text);
  chat.at = Date.now();
  const k = add_node(chat, i, 'assistant', '');
  notice('');
  answer(chat, k, false);
  keep(chat);
}

function again(i) {
  const n = shown.nodes[i];
  if (runs.has(shown)) return;
  answer(shown, add_node(shown, n.role === 'user' ? i : n.parent, 'assistant', ''), false);
}

/* --- the composer --- */

function set_text(text) {
  $('text').value = text;
  fit($('text'));
}

function fit(area) { /* where the browser does not do it by `field-sizing` */
  if (CSS.supports('field-sizing', 'content')) return;
  area.style.height = 'auto';
  area.style.height = area.scrollHeight + 2 + 'px';
}

const is_touch = () => matchMedia('(pointer: coarse)').matches;

function is_send_key(event) {
  return event.key === 'Enter' && !event.shiftKey && !event.isComposing && !is_touch();
}

$('form').onsubmit = event => {
  event.preventDefault();
  const text = $('text').value.trim();
  if (!text || runs.has(shown)) return;
  if (wrong_settings()) {
    open_settings(wrong_settings());
    return;
  }
  set_text('');
  if (!is_touch()) $('text').focus(); /* there a keyboard would hide the answer */
  ask(shown, path_of(shown).at(-1) ?? -1, text);
};
$('text').onkeydown = event => {
  if (is_send_key(event)) {
    event.preventDefault();
    $('form').requestSubmit();
  } else if (event.key === 'ArrowUp' && !$('text').value) {
    const last = path_of(shown).findLast(i => shown.nodes[i].role === 'user');
    if (last === undefined || runs.has(shown)) return;
    event.preventDefault();
    edit(last);
  }
};
$('text').oninput = () => fit($('text'));
$('stop').onclick = () => {
  runs.get(shown)?.stopper.abort();
  $('text').focus();
};

/* --- a message's buttons --- */

function edit(i) {
  const article = articles.get(i), asked = article.querySelector('.asked');
  if (article.querySelector('form')) return;
  const form = node('form');
  const area = node('textarea', undefined, form);
  area.value = shown.nodes[i].content;
  area.setAttribute('aria-label', 'Edit message');
  const row = node('div', undefined, form);
  const cancel = node('button', 'Cancel', row), send = node('button', 'Send', row);
  cancel.type = 'button';
  send.className = 'strong';
  const close = () => {
    form.replaceWith(asked);
    article.classList.remove('editing');
    article.querySelector('[data-act=edit]')?.focus();
  };
  cancel.onclick = close;
  area.oninput = () => fit(area);
  area.onkeydown = event => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      close();
    } else if (is_send_key(event)) {
      event.preventDefault();
      form.requestSubmit();
    }
  };
  form.onsubmit = event => {
    event.preventDefault();
    const text = area.value.trim(), chat = shown;
    if (!text || runs.has(chat)) return;
    close();
    $('text').focus();
    ask(chat, chat.nodes[i].parent, text);
  };
  asked.replaceWith(form);
  article.classList.add('editing');
  fit(area);
  area.focus();
}

function turn(i, by) {
  const all = siblings(shown, i);
  const now = all[all.indexOf(i) + by];
  if (now === undefined || runs.has(shown)) return;
  choose(shown, now);
  keep(shown);
  show();
  articles.get(now).querySelector(`[data-act=${by < 0 ? 'before' : 'after'}]:not(:disabled)`)?.focus();
}

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (e) { /* not on pages that came without TLS from another machine */
    const area = node('textarea', undefined, document.body);
    area.value = text;
    area.select();
    document.execCommand('copy');
    area.remove();
    from.focus();
  }
  $('said').textContent = 'Copied';
  from.classList.add('done');
  if (from.classList.contains('copy-code')) from.textContent = 'Copied';
  setTimeout(() => {
    from.classList.remove('done');
    if (from.classList.contains('copy-code')) from.textContent = 'Copy';
  }, 1500);
}

$('talk').onclick = event => {
  const b = event.target.closest('button'), article = event.target.closest('article');
  if (!b || !article) return;
  const i = Number(article.dataset.node);
  if (b.classList.contains('copy-code')) copy(b.closest('.code').querySelector('code').textContent, b);
  switch (b.dataset.act) {
  case 'copy': copy(shown.nodes[i].content, b); break;
  case 'edit': if (!runs.has(shown)) edit(i); break;
  case 'again': again(i); break;
  case 'more': if (!runs.has(shown)) answer(shown, i, true); break;
  case 'before': turn(i, -1); break;
  case 'after': turn(i, 1); break;
  }
};

/* --- conversations --- */

function open_chat(chat) {
  if (chat !== shown && shown && !shown.nodes.length && !shown.rev) chats.delete(shown.id);
  chats.set(chat.id, chat);
  notice('');
  show_chat(chat);
  fill_settings();
  open_drawer(false);
}

function new_chat() {
  if (shown?.nodes.length || !shown) open_chat(make_chat(shown ?? chats_in_order()[0]));
  open_drawer(false);
  $('text').focus();
}

function open_drawer(is_open) {
  document.body.classList.toggle('drawer', is_open);
  $('menu').setAttribute('aria-expanded', is_open);
}

function remove_chat() {
  const chat = shown;
  if (!chat.nodes.length) return;
  runs.get(chat)?.stopper.abort();
  forget_chat(chat);
  shown = null;
  open_chat(chats_in_order()[0] ?? make_chat(chat));
  notice(`Deleted: ${chat.name}`, 'Undo', () => {
    open_chat(chat);
    keep(chat);
  });
}

$('chats').onclick = event => {
  const chat = chats.get(event.target.closest('button')?.dataset.chat);
  if (!chat) return;
  open_chat(chat);
  $('text').focus();
};
$('new').onclick = new_chat;
$('menu').onclick = () => {
  open_drawer(!document.body.classList.contains('drawer'));
  if (document.body.classList.contains('drawer')) $('new').focus();
};
$('shade').onclick = () => open_drawer(false);
$('delete').onclick = remove_chat;
$('rename').onclick = () => {
  $('rename-text').value = shown.name;
  $('renaming').showModal();
  $('rename-text').select();
};
$('rename-form').onsubmit = event => {
  event.preventDefault();
  const name = $('rename-text').value.trim();
  if (name) shown.name = name.slice(0, 200);
  $('renaming').close();
  if (shown.nodes.length) keep(shown);
  else show_list();
};

/* --- settings --- */

function wrong_settings() {
  return Object.keys(SETTINGS).find(name => $(name).value !== '' && setting_problem(name, $(name).valueAsNumber)) ??
    Object.keys(SETTINGS).find(name => $(name).validity.badInput);
}

function read_setting(name) {
  const input = $(name), is_empty = input.value === '' && !input.validity.badInput;
  const problem = is_empty ? '' : setting_problem(name, input.valueAsNumber);
  $(name + '-said').textContent = problem ? problem + ': it is not used.' : '';
  input.setAttribute('aria-invalid', Boolean(problem));
  if (is_empty || problem) delete shown.settings[name];
  else shown.settings[name] = input.valueAsNumber;
  if (shown.nodes.length) keep(shown);
}

function make_settings() {
  for (const [name, s] of Object.entries(SETTINGS)) {
    const row = node('label', undefined, $('numbers'));
    const title = node('span', s.label, row);
    node('small', s.hint, title);
    const input = node('input', undefined, row);
    Object.assign(input, { id: name, type: 'number', min: s.min, max: s.max, step: s.step, placeholder: 'model\u2019s own' });
    input.onchange = () => read_setting(name);
    const said = node('span', '', row);
    said.id = name + '-said';
    said.className = 'said';
    said.setAttribute('role', 'alert');
    input.setAttribute('aria-describedby', said.id);
  }
  $('max_tokens').placeholder = 'no limit';
  $('seed').placeholder = 'random';
}

function fill_settings() {
  $('system').value = shown.system;
  $('thinking').value = shown.thinking;
  $('key').value = api_key();
  for (const name in SETTINGS) {
    $(name).value = shown.settings[name] ?? '';
    $(name).removeAttribute('aria-invalid');
    $(name + '-said').textContent = '';
  }
}

function open_settings(focus) {
  if (!$('settings').open) $('settings').showModal();
  if (focus) $(focus).focus();
}

$('set').onclick = () => open_settings();
$('settings-form').onsubmit = event => {
  event.preventDefault();
  if (wrong_settings()) $(wrong_settings()).focus();
  else $('settings').close();
};
$('system').onchange = () => { shown.system = $('system').value; if (shown.nodes.length) keep(shown); };
$('thinking').onchange = () => { shown.thinking = $('thinking').value; if (shown.nodes.length) keep(shown); };
$('key').onchange = () => {
  set_api_key($('key').value.trim());
  meet();
};

/* --- in and out --- */

function download(ending, type, text) {
  const a = node('a');
  a.href = URL.createObjectURL(new Blob([text], { type }));
  a.download = (shown.name.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60) || 'chat') + ending;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

$('markdown').onclick = () => download('.md', 'text/markdown', as_markdown(shown));
$('json').onclick = () => download('.json', 'application/json', as_json(shown));
$('import').onclick = () => $('file').click();
$('file').onchange = async () => {
  const file = $('file').files[0];
  $('file').value = '';
  let chat = null;
  try { chat = checked_chat(JSON.parse(await file.text())); } catch (e) { /* not JSON */ }
  if (!chat) {
    notice(`${file.name} is not a chat that was exported as JSON.`);
    return;
  }
  open_chat(chat);
  keep(chat);
};

/* --- the page itself --- */

async function meet() {
  try {
    await ask_model();
    $('key-said').textContent = '';
    notice('');
    show_model();
    show();
  } catch (e) {
    failed(e);
  }
}

for (const menu of document.querySelectorAll('details.menu'))
  menu.onclick = event => { if (event.target.closest('.menu-items button')) menu.open = false; };
document.addEventListener('click', event => {
  for (const menu of document.querySelectorAll('details.menu[open]'))
    if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener('keydown', event => {
  if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;
  const menu = document.querySelector('details.menu[open]');
  if (menu) {
    menu.open = false;
    menu.querySelector('summary').focus();
  } else if (document.body.classList.contains('drawer')) {
    open_drawer(false);
    $('menu').focus();
  } else if (runs.has(shown)) {
    $('stop').click();
  }
});
$('notice-close').onclick = () => { notice(''); $('text').focus(); };
$('scroll').onscroll = () => {
  const talk = $('scroll');
  follows = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 80;
  $('down').hidden = follows;
};
$('down').onclick = () => { follows = true; follow(); };
addEventListener('pagehide', () => {
  leaving = true;
  for (const chat of runs.keys()) save_chat(chat);
});
addEventListener('pageshow', () => { leaving = false; });

/* Another tab has written or deleted a conversation. */
addEventListener('storage', event => {
  if (!event.key?.startsWith(STORE)) return;
  const id = event.key.slice(STORE.length), mine = chats.get(id);
  if (mine && runs.has(mine)) return; /* save_chat sees to it */
  const kept = read_chat(event.key);
  if (kept) chats.set(id, kept);
  else chats.delete(id);
  if (mine && mine === shown) open_chat(kept ?? chats_in_order()[0] ?? make_chat(shown));
  else show_list();
});

make_settings();
const n_damaged = load_chats();
open_chat(chats_in_order()[0] ?? make_chat());
meet().then(() => {
  if (n_damaged) notice(`${n_damaged} of the chats that this browser keeps cannot be read.`);
});
$('text').focus();
