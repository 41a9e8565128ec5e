/* highlight.js - colours of code: comments, strings, numbers and the words that most languages share.
   One regular expression a family of languages, each of whose parts runs to its own end: linear. */

const STRING = /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/.source;
const NUMBER = /\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w*/.source;
const FAMILIES = {
  slash: { comment: /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)/.source, string: STRING + /|`(?:[^`\\]|\\.)*`?/.source },
  hash: { comment: /#[^\n]*/.source, string: /"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)/.source + '|' + STRING },
  dash: { comment: /--[^\n]*|\/\*[^]*?(?:\*\/|$)/.source, string: STRING },
};
const LANGUAGES = {
  slash: 'c h cc cpp c++ cuda cu java js javascript jsx ts typescript tsx go rust rs swift kotlin kt cs csharp c# scala php dart zig json jsonc css scss',
  hash: 'py python sh bash zsh shell ruby rb perl r yaml yml toml ini make makefile cmake dockerfile elixir nix julia',
  dash: 'sql lua haskell hs ada elm',
};
const WORDS = new Set(('abstract alignas and as assert async auto await begin bool boolean break case catch char class const ' +
  'constexpr continue crate def default defer del delete do done double echo elif else elsif end enum esac except export ' +
  'extends extern false fi final finally float fn for foreach from func function global go if impl implements import in ' +
  'include inline instanceof int interface is lambda let local long loop match mod module move mut namespace new nil none ' +
  'not null nullptr of operator or override package pass private protected pub public raise range register require return ' +
  'self short signed sizeof static struct super switch template then this throw throws trait true try type typedef typename ' +
  'typeof undefined union unless unsafe unsigned until use using var virtual void volatile when where while with yield ' +
  'select insert update into values set create table drop alter join left right inner outer on group by order having ' +
  'limit offset distinct primary key foreign references index view exists between like asc desc').split(' '));
const highlighters = {};

for (const family in LANGUAGES) {
  const { comment, string } = FAMILIES[family];
  const pattern = new RegExp(`(${comment})|(${string})|(${NUMBER})|([A-Za-z_][\\w]*)`, 'g');
  for (const name of LANGUAGES[family].split(' ')) highlighters[name] = pattern;
}

/* Append `code` to `parent`; as plain text where the language is not known. */
function highlight(code, language, parent) {
  const name = language.toLowerCase();
  const pattern = Object.hasOwn(highlighters, name) ? highlighters[name] : null;
  let plain = 0;
  const put = (kind, m) => {
    parent.append(code.slice(plain, m.index));
    node('span', m[0], parent).className = kind;
    plain = m.index + m[0].length;
  };
  for (const m of pattern ? code.matchAll(pattern) : []) {
    if (m[1]) put('comment', m);
    else if (m[2]) put('string', m);
    else if (m[3]) put('number', m);
    else if (WORDS.has(name === 'sql' ? m[4].toLowerCase() : m[4]) || ['True', 'False', 'None'].includes(m[4])) put('word', m);
  }
  parent.append(code.slice(plain));
}
