#!/usr/bin/env python3
"""Names as a test: comments and documents refer to files and functions that exist, an exported function has a caller in
another file, and a name is that of one function.

usage: check_names.py [ROOT] | --update | --accept | --self-test

A function that no other file of src/ calls is there for tests alone. tools/test_hooks.txt lists those that stay, each with
its reason.

tools/namesakes.txt lists the names that several files of src/ define, with the number of files: a number may only fall,
and no name may be added. `--update` removes from it the names that have become unique. `--accept` writes the present
names: only for a merge of branches that did not know each other's names.
"""

import collections
import os
import re
import sys
import tempfile

from check_prose import comments_of
from check_style import TOKEN, files_of

NAMESAKES = 'tools/namesakes.txt'
TEST_HOOKS = 'tools/test_hooks.txt'
# Texts that name files of the reader, of other projects or of a build, not of this tree.
FILES_ELSEWHERE = re.compile(r'^(worker|program|manage)\.(py|c)$|^temporal\.pb-c\.[ch]$|'
                             r'^(libpq-fe|sqlite3|jansson|wal)\.[ch]$')
FILE = re.compile(r'(?<![\w./*{-])((?:[\w-]+/)*\w[\w-]*\.(?:c|h|sql|py|md|sh|proto))\b(?![\w(/*])')
# Functions of libraries and of the system, which no file of the tree defines.
FUNCTION_ELSEWHERE = re.compile(r'^(sqlite3|pg|jv|jq|fy|nghttp2|pthread|posix)_')
CALL = re.compile(r'(?<![\w.>])([a-z]\w*_\w+)\(\)')
DEFINITION = re.compile(r'^(?!(?:_Noreturn )?static\b|typedef\b|extern\b|#)[A-Za-z_][^\n;={}]*?\b(\w+)\s*'
                        r'\([^;{}]*\)\s*\{', re.MULTILINE)
STATIC = re.compile(r'^(?:_Noreturn )?static\b(?![^\n]*=)[^\n;={}]*?\b(\w+)\s*\([^;{}]*\)\s*\{', re.MULTILINE)
NO_REFERENCES = ('tests/fuzz/corpus/', 'LICENSE', 'docs/commands.md', 'bench/peers/')


def code_of(text):
    """C without comments and texts."""
    return TOKEN.sub(lambda token: ' ' if token.group()[0] == '/' else '""', text)


class Tree:
    def __init__(self, root):
        self.root = root
        self.paths = files_of(root)
        self.texts = {}
        for path in self.paths:
            if path.endswith(('.c', '.h', '.sql', '.py', '.md', '.map', '.in', '.build', '.sh')) and \
                    not path.startswith(NO_REFERENCES):
                with open(os.path.join(root, path), encoding='utf-8') as source:
                    self.texts[path] = source.read()
        self.code = {path: code_of(text) for path, text in self.texts.items() if path.endswith(('.c', '.h'))}
        self.words = {path: set(re.findall(r'\w+', code)) for path, code in self.code.items()}

    def known_names(self):
        known = set().union(*self.words.values()) if self.words else set()
        for path, text in self.texts.items():
            if path.endswith(('.sql', '.py')):
                known |= set(re.findall(r'\w+', re.sub(r'--[^\n]*', '', text)))
        return known


def check_references(tree, problems):
    """A file is named by the end of its path: starter.c, dispatch/starter.c, src/dispatch/starter.c."""
    suffixes = set()
    for path in tree.paths:
        parts = path.split('/')
        suffixes |= {'/'.join(parts[start:]) for start in range(len(parts))}
    known = tree.known_names()
    for path, text in sorted(tree.texts.items()):
        if path.endswith('.md'):
            texts = [re.sub(r'^```.*?^```', '', text, flags=re.DOTALL | re.MULTILINE)]
        elif path.endswith(('.c', '.h', '.sql')):
            texts = comments_of(path, text)
        else:
            continue
        for comment in texts:
            for name in FILE.findall(comment):
                if name not in suffixes and not re.search('[A-Z]{4}', name) and not FILES_ELSEWHERE.search(name):
                    problems.append(f'{path}: there is no file {name}\n    name the file that holds it')
            for name in CALL.findall(comment):
                if name not in known and not FUNCTION_ELSEWHERE.match(name):
                    problems.append(f'{path}: there is no function {name}()\n    name the function that does it')


def definitions(tree, pattern):
    """name -> files of src/ that define it"""
    found = {}
    for path, code in tree.code.items():
        if path.startswith('src/') and path.endswith('.c'):
            for name in pattern.findall(code):
                found.setdefault(name, set()).add(path)
    return found


def read_hooks(root):
    """name -> reason"""
    try:
        with open(os.path.join(root, TEST_HOOKS), encoding='utf-8') as source:
            lines = [line.split(maxsplit=1) for line in source if line.strip() and not line.startswith('#')]
    except FileNotFoundError:
        return {}
    return {line[0]: line[1].strip() if len(line) > 1 else '' for line in lines}


def check_exports(tree, problems):
    """Public functions (include/weir) are for programs; main() is for the system."""
    public = set().union(*[words for path, words in tree.words.items() if path.startswith('include/')] or [set()])
    users, twice = {}, set()  # twice: named by a macro or an inline function of a header, beside the prototype
    for path, code in tree.code.items():
        names = re.findall(r'\w+', code)
        # The rows of the table of commands are in files of their own, which command_table.c includes.
        for name in set(names) if path.endswith(('.c', '_commands.h')) else ():
            users.setdefault(name, set()).add(path)
        if path.endswith('.h') and path.startswith('src/'):
            twice |= {name for name, count in collections.Counter(names).items() if count > 1}
    hooks = read_hooks(tree.root)
    needed = set()
    for name, homes in sorted(definitions(tree, DEFINITION).items()):
        others = users[name] - homes
        if name in twice | public | {'main'} or any(path.startswith('src/') for path in others):
            continue
        needed.add(name)
        if not others:
            problems.append(f'{sorted(homes)[0]}: {name}() is exported and no other file calls it\n'
                            '    make it static and remove its prototype')
        elif not hooks.get(name):
            problems.append(f'{sorted(homes)[0]}: of src/ no other file calls {name}(), only {sorted(others)[0]}\n'
                            f'    remove it, make it static, or give the reason in {TEST_HOOKS}')
    problems += [f'{TEST_HOOKS}: {name} is no function that tests alone call\n    remove the line'
                 for name in sorted(set(hooks) - needed)]


def namesakes(tree):
    found = definitions(tree, STATIC)
    for name, homes in definitions(tree, DEFINITION).items():
        found.setdefault(name, set()).update(homes)
    return {name: homes for name, homes in found.items() if len(homes) > 1 and name != 'main' and
            not name.isupper()}  # an attribute such as WEIR_PRINTF


def read_allowed(root):
    try:
        with open(os.path.join(root, NAMESAKES), encoding='utf-8') as source:
            return {name: int(count) for name, count in (line.split() for line in source if not line.startswith('#'))}
    except FileNotFoundError:
        return {}


def check_namesakes(tree, problems):
    allowed = read_allowed(tree.root)
    for name, homes in sorted(namesakes(tree).items()):
        if len(homes) > allowed.get(name, 1):
            problems.append(f'{name}() is defined in {len(homes)} files: {", ".join(sorted(homes))}\n'
                            '    name the new one module_verb_object, so that a backtrace and a search find one function')


def update(tree, accept=False):
    allowed = read_allowed(tree.root)
    now = {name: len(homes) for name, homes in namesakes(tree).items()}
    kept = now
    if allowed and not accept:
        kept = {name: min(count, now[name]) for name, count in allowed.items() if name in now}
    with open(os.path.join(tree.root, NAMESAKES), 'w', encoding='utf-8') as target:
        target.write('# Functions of src/ with one name in several files, for tools/check_names.py. Numbers only fall.\n')
        target.writelines(f'{name} {count}\n' for name, count in sorted(kept.items()))


def check(root):
    problems = []
    tree = Tree(root)
    check_references(tree, problems)
    check_exports(tree, problems)
    check_namesakes(tree, problems)
    return problems


def problems_in(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as target:
                target.write(text)
        return check(root)


def self_test():
    caller = {'src/a/b.c': '#include "a/c.h"\nint main(void)\n{\n    return c_add(1);\n}\n'}
    other = {'src/a/c.c': 'int c_add(int a)\n{\n    return a;\n}\n'}
    assert problems_in({**caller, **other}) == []
    assert 'no other file calls it' in problems_in(other)[0]
    assert problems_in({**caller, **other, 'docs/x.md': 'See `a/c.c` and `c_add()`, `sqlite3_open_v2()`.\n'}) == []
    assert 'no file a/d.c' in problems_in({**caller, **other, 'docs/x.md': 'See `a/d.c`.\n'})[0]
    assert 'no function c_take()' in problems_in({**caller, **other, 'src/a/d.c': '/* As c_take() does. */\nint x;\n'})[0]
    assert 'no file d.h' in problems_in({**caller, **other, 'src/a/q.sql': '-- see d.h\nSELECT 1;\n'})[0]
    test = {'tests/x.c': 'void f(void)\n{\n    c_add(1);\n}\n'}
    assert 'only tests/x.c' in problems_in({**test, **other})[0]
    assert problems_in({**test, **other, TEST_HOOKS: '# names\nc_add adds by hand\n'}) == []
    assert 'only tests/x.c' in problems_in({**test, **other, TEST_HOOKS: 'c_add\n'})[0]
    assert 'c_add is no function that tests' in problems_in({**caller, **test, **other, TEST_HOOKS: 'c_add adds\n'})[0]
    twins = {f'src/a/{name}.c': 'static int look(void)\n{\n    return 1;\n}\n' for name in ('d', 'e')}
    assert 'look() is defined in 2 files' in problems_in({**caller, **other, **twins})[0]
    assert problems_in({**caller, **other, **twins, NAMESAKES: '# list\nlook 2\n'}) == []
    marked = {path: text.replace('look(void)', 'LOOK(1)') for path, text in twins.items()}
    assert problems_in({**caller, **other, **marked}) == []
    assert problems_in({**caller, **other, **twins, NAMESAKES: 'look 1\n'}) != []


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return 0
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    if sys.argv[1:] in (['--update'], ['--accept']):
        update(Tree(root), sys.argv[1] == '--accept')
        return 0
    problems = check(sys.argv[1] if len(sys.argv) > 1 else root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
