/* stream.js - the server: what model it has, and an answer as it comes. */

const KEY = 'glyd.key'; /* of this tab, until it is closed */
const model = { name: '', context: 0 };
const runs = new Map(); /* conversation to the answer that is being made for it */

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let typed_key = ''; /* where the browser keeps nothing */

function api_key() {
  try { return sessionStorage.getItem(KEY) ?? typed_key; } catch (e) { return typed_key; }
}

function set_api_key(key) {
  typed_key = key;
  try { sessionStorage.setItem(KEY, key); } catch (e) { /* it is asked for again after a reload */ }
}

function headers() {
  const h = { 'Content-Type': 'application/json' };
  if (api_key()) h.Authorization = 'Bearer ' + api_key();
  return h;
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: headers() });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Refused(0, 'The server cannot be reached: is it still running?');
  }
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try {
    const { error } = await response.json();
    message = typeof error === 'string' ? error : error.message;
  } catch (e) { /* the status alone */ }
  if (response.status === 401) message = 'This server wants an API key.';
  throw new Refused(response.status, message);
}

/* The data of an event stream, event by event. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (kept + value).split('\n\n');
    kept = parts.pop();
    for (const p of parts) if (p.startsWith('data: ')) yield p.slice(6);
  }
}

function request_of(chat, path, goes_on) {
  const messages = path.map(i => ({ role: chat.nodes[i].role, content: chat.nodes[i].content }));
  if (chat.system) messages.unshift({ role: 'system', content: chat.system });
  const body = { messages, ...chat.settings, stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true } };
  if (chat.thinking) body.chat_template_kwargs = { enable_thinking: chat.thinking === 'on' };
  if (goes_on) Object.assign(body, { continue_final_message: true, add_generation_prompt: false });
  return JSON.stringify(body);
}

/* Make the answer that is node `i` of a conversation. `changed` is called as it grows. Resolves to
   an error, or null; node.finish says how it ended: stop, length, context, stopped (by the user) or
   cut (by whatever). */
async function make_answer(chat, i, goes_on, changed) {
  const n = chat.nodes[i], path = path_of(chat);
  const run = { chat, node: i, stopper: new AbortController(), first: 0, last: 0, tokens: 0 };
  const before = { tokens: n.tokens, seconds: n.seconds };
  runs.set(chat, run);
  n.finish = 'cut'; /* until it is known better: the page may be closed at any time */
  try {
    const response = await call('v1/chat/completions', { method: 'POST', signal: run.stopper.signal,
      body: request_of(chat, goes_on ? path : path.slice(0, -1), goes_on) });
    for await (const data of events(response.body)) {
      if (data === '[DONE]') return null;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Refused(chunk.error.code ?? 500, chunk.error.message);
      take_chunk(n, run, chunk, before);
      changed();
    }
    throw new Refused(0, 'The server went away before the answer was whole.');
  } catch (e) {
    if (e.name !== 'AbortError')
      return e instanceof Refused ? e : new Refused(0, 'The connection broke off: ' + e.message);
    n.finish = 'stopped';
    return null;
  } finally {
    runs.delete(chat);
  }
}

function take_chunk(n, run, chunk, before) {
  const choice = chunk.choices?.[0];
  const text = choice?.delta?.content || '', reasoning = choice?.delta?.reasoning || '';
  if (text || reasoning) {
    run.last = performance.now();
    run.first ||= run.last;
    run.tokens++;
    n.content += text;
    n.reasoning += reasoning;
  }
  if (chunk.usage) {
    run.tokens = chunk.usage.completion_tokens;
    n.total = chunk.usage.total_tokens;
  }
  n.tokens = before.tokens + run.tokens;
  n.seconds = before.seconds + (run.last - run.first) / 1000;
  if (choice?.finish_reason) n.finish = choice.finish_reason;
  if (n.finish === 'length' && model.context && n.total >= model.context) n.finish = 'context';
}

async function ask_model() {
  const card = (await (await call('v1/models')).json()).data[0];
  model.name = card.id;
  model.context = card.max_model_len;
  model.held = card.glyd;
}
