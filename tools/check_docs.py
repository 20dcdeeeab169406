#!/usr/bin/env python3
"""Documents as a test: a long page has a table of contents, a sentence has at most 30 words, and the glossary has one
sentence for each term, in the order of the alphabet. ARCHITECTURE.md has at most MAP_LINES_MOST lines. In the tables of
MAPPINGS each name of the column `weir` is one of the reference: a command with its flags, a route, a metric, a setting, an
event, a function or view of SQL, a key of a definition, a state. Other tests compare the reference with the program.

usage: check_docs.py [ROOT] | --update [ROOT] | --self-test

A page of docs/ with at least HEADINGS_LEAST sections has a list of links to all of them in front of the first. `--update`
writes these lists. docs/commands.md is printed from the table of commands and is not checked.
"""

import os
import re
import sys
import tempfile

from check_prose import plain, sentences_of

HEADINGS_LEAST = 6
WORDS_MOST = 30
BEGIN = 'On this page:'
CONTENTS = re.compile('^' + re.escape(BEGIN) + r'\n\n(- \[.*\n)+\n', re.MULTILINE)
WELCOME = 'README.md'
GLOSSARY = 'docs/glossary.md'
MAP = 'ARCHITECTURE.md'
MAP_LINES_MOST = 200
PRINTED = ('docs/commands.md',)
MAPPINGS = ('docs/guides/from_nflow.md', 'docs/guides/from_riven.md')
COLUMN = 'weir'
COMMANDS, ROUTES = 'docs/commands.md', 'docs/http.md'
REFERENCE = (COMMANDS, ROUTES, 'docs/definitions.md', 'docs/metrics.md', 'docs/names.md', 'docs/operations.md',
             'docs/schedules.md', 'docs/sql.md', 'docs/state_machine.md', 'docs/temporal.md', 'docs/tracing.md')
EVENTS = 'src/observe/event.h'
SPAN = re.compile(r'`([^`\n]+)`')


def pages(root):
    for folder, folders, names in os.walk(os.path.join(root, 'docs')):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if name.endswith('.md') and path not in PRINTED:
                yield path
    yield WELCOME


def sections_of(text):
    """The headings of the second level, outside of fenced blocks."""
    outside = re.sub(r'^```.*?^```', '', text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r'^## (.+)$', outside, re.MULTILINE)


def anchor_of(heading):
    """As the usual sites make it: lower case, without signs, spaces become dashes."""
    return re.sub(r'[^\w\- ]', '', re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading).lower()).replace(' ', '-')


def contents_of(text):
    """The list of links that the page must have, or None for a short one."""
    headings = sections_of(text)
    if len(headings) < HEADINGS_LEAST:
        return None
    return BEGIN + '\n\n' + ''.join(f'- [{heading}](#{anchor_of(heading)})\n' for heading in headings) + '\n'


def with_contents(text):
    """The page with its list of contents: in place of the old one, in front of the first section."""
    contents = contents_of(text)
    without = CONTENTS.sub('', text)
    if contents is None:
        return without
    return re.sub(r'^## ', lambda _: contents + '## ', without, count=1, flags=re.MULTILINE)


def long_sentences(text):
    return [words for words in sentences_of(plain(CONTENTS.sub('', text))) if len(words) > WORDS_MOST]


def glossary_problems(path, text):
    found, last = [], ''
    for term, meaning in re.findall(r'^\| (.+?) \| (.+) \|$', text, re.MULTILINE)[1:]:  # the first row is the head
        place = term.lower().replace('-', ' ')
        if re.search(r'[.!?] [A-Z]', meaning):
            found.append(f'{path}: the term "{term}" has several sentences\n    one for each term; a second fact is a term')
        if place <= last:
            found.append(f'{path}: the term "{term}" is not in the order of the alphabet, or there twice\n    move it')
        last = place
    return found


def problems_of(path, text):
    found = glossary_problems(path, text) if path == GLOSSARY else []
    if path != WELCOME and with_contents(text) != text:
        found.append(f'{path}: the table of contents does not list the sections of the page\n'
                     '    python3 tools/check_docs.py --update')
    for words in long_sentences(text):
        found.append(f'{path}: a sentence has {len(words)} words; {WORDS_MOST} is the most\n'
                     f'    one idea in a sentence; it begins "{" ".join(words[:8])} ..."')
    return found


class Reference:
    """The names that the reference has."""

    def __init__(self, texts, events):
        """`texts`: path -> text of a page; `events`: the list of events in C."""
        commands = texts[COMMANDS]
        parts = re.split(r'^### (?=weir )', commands, flags=re.MULTILINE)[1:]
        self.commands = {part.split('\n', 1)[0]: part for part in parts}
        self.flags_of_all = commands.partition('## Flags of every command')[2]
        self.routes = set(re.findall(r'^\| ([A-Z]+) \| `([^`]+)`', texts[ROUTES], re.MULTILINE))
        self.text = re.sub(r'^ *```.*?^ *```', '', '\n'.join(texts.values()), flags=re.DOTALL | re.MULTILINE)
        self.names = set(SPAN.findall(self.text)) | set(re.findall(r'"(\w+\.\w+)"', events))
        for row in re.findall(r'^\| (?:[A-Z]{4,} \||`execution_id`, `at`, `event`).*', self.text, re.MULTILINE):
            self.names.update(re.findall(r'\w+', row))  # moves of a state, and events of the history, have no marks

    def problem_of(self, name):
        """None: the reference has the name."""
        if name.startswith('weir '):
            return self.problem_of_command(name)
        method = re.match(r'([A-Z]+) (/\S*)$', name)
        if method:
            return None if method.groups() in self.routes else 'no route'
        if re.match(r'weir\.\w+', name):
            return None if re.search(rf'\b{re.escape(name)}\b', self.text) else 'no function or table of SQL'
        if name.startswith('--'):
            return None if re.search(rf'{re.escape(name)}\b(?!-)', self.text) else 'no flag'
        bare = re.sub(r'\(\)$', '', name.split(': ')[0])
        if re.match(r'\w+:(\w+$|//)', name) or name in self.names or bare in self.names or f'{bare}()' in self.names:
            return None
        return 'no name of the reference'

    def problem_of_command(self, line):
        words = line.split()
        known = [' '.join(words[:count]) for count in (3, 2) if ' '.join(words[:count]) in self.commands]
        if not known:
            return 'no command'
        for word in words:
            flag = re.match(r'--[\w-]+', word)
            if flag and not re.search(rf'{flag.group()}\b(?!-)', self.commands[known[0]] + self.flags_of_all):
                return f'no flag {flag.group()} of {known[0]}'
        return None


def cells_of(row):
    return [cell.strip() for cell in row.strip('|').split('|')]


def mapped_names(text):
    """Each name in a column `weir`."""
    for table in re.findall(r'(?:^\|.*\n)+', text, re.MULTILINE):
        rows = table.splitlines()
        if COLUMN in cells_of(rows[0]):
            place = cells_of(rows[0]).index(COLUMN)
            for row in rows[2:]:
                yield from SPAN.findall(cells_of(row)[place])


def mapping_problems(root):
    paths = [path for path in MAPPINGS if os.path.exists(os.path.join(root, path))]
    if not paths:
        return []
    texts = {}
    for path in (*REFERENCE, EVENTS, *paths):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            texts[path] = file.read()
    reference = Reference({path: texts[path] for path in REFERENCE}, texts[EVENTS])
    named = [(path, name) for path in paths for name in dict.fromkeys(mapped_names(texts[path]))]
    problems = [reference.problem_of(name) for _, name in named]
    return [f'{path}: `{name}` in a column "{COLUMN}": {problem}\n    use the name that the program has'
            for (path, name), problem in zip(named, problems) if problem]


def check(root):
    found = mapping_problems(root)
    for path in pages(root):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            found += problems_of(path, file.read())
    if os.path.exists(os.path.join(root, MAP)):
        with open(os.path.join(root, MAP), encoding='utf-8') as file:
            lines = len(file.readlines())
        if lines > MAP_LINES_MOST:
            found.append(f'{MAP}: {lines} lines; {MAP_LINES_MOST} is the most\n'
                         '    unite rows, or put the decision into docs/design/')
    return found


def update(root):
    for path in pages(root):
        name = os.path.join(root, path)
        with open(name, encoding='utf-8') as file:
            text = file.read()
        if with_contents(text) != text and path != WELCOME:
            with open(name, 'w', encoding='utf-8') as file:
                file.write(with_contents(text))


def self_test_mappings():
    texts = {path: '' for path in REFERENCE}
    texts[COMMANDS] = '### weir list\n| `--limit N` | rows |\n### weir plan set\n| `--weight W` |\n' \
                      '## Flags of every command\n| `-n, --dry-run` |\n| `store` | `WEIR_STORE` |\n'
    texts[ROUTES] = '| GET | `/v1/nodes` | lists |\n'
    texts['docs/sql.md'] = '`weir.enqueue(a, b)`\n| `execution_id`, `at`, `event` | claim, step_end |\n'
    texts['docs/state_machine.md'] = '| PENDING | CLAIMED | claim |\n'
    reference = Reference(texts, 'X(EVENT_A, "node.dead", EVENT_WARN)')
    for name in ('weir list --limit 3', 'weir plan set gold --weight 2 --dry-run', 'GET /v1/nodes', 'weir.enqueue',
                 'PENDING', 'step_end', 'node.dead', 'store', '--limit', 'sqlite:PATH'):
        assert reference.problem_of(name) is None, name
    for name in ('weir lists', 'weir list --weight 2', 'weir list --lim', 'PUT /v1/nodes', 'weir.enque', 'PENDIN',
                 'node.dea', 'stor', '--limi', 'weir_x_total'):
        assert reference.problem_of(name) is not None, name
    assert list(mapped_names('| a | weir | c |\n|---|---|---|\n| `x` | `y`; `z` | `w` |\n\n| a |\n|---|\n| `q` |\n')) == \
        ['y', 'z']


def self_test():
    self_test_mappings()
    head = '| term | meaning |\n|---|---|\n'
    assert glossary_problems('x', head + '| a b | one `c.d` thing; it is |\n| a-c | two |\n') == []
    assert len(glossary_problems('x', head + '| b | One. Two |\n| a | three |\n| a | three |\n')) == 3
    sections = ''.join(f'## Part {i}: `a` & b?\n\nText.\n\n' for i in range(HEADINGS_LEAST))
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, 'docs'))
        for name, text in (('README.md', '# Title\n'), ('docs/long.md', '# Title\n\nFirst.\n\n' + sections),
                           ('docs/words.md', '# T\n\n' + 'word ' * (WORDS_MOST + 1) + '. Short.\n\n```\n## x\n```\n')):
            with open(os.path.join(root, name), 'w', encoding='utf-8') as file:
                file.write(text)
        found = check(root)
        assert len(found) == 2 and found[0].startswith('docs/long.md') and found[1].startswith('docs/words.md: '), found
        update(root)
        assert check(root) == found[1:], check(root)
        with open(os.path.join(root, 'docs/long.md'), encoding='utf-8') as file:
            assert '- [Part 0: `a` & b?](#part-0-a--b)\n' in file.read()
        with open(os.path.join(root, 'docs/long.md'), 'a', encoding='utf-8') as file:
            file.write('## More\n')
        assert len(check(root)) == 2
        for lines, count in ((MAP_LINES_MOST, 2), (MAP_LINES_MOST + 1, 3)):
            with open(os.path.join(root, MAP), 'w', encoding='utf-8') as file:
                file.write('a\n' * lines)
            assert len(check(root)) == count, check(root)


def main():
    words = sys.argv[1:]
    if words[:1] == ['--self-test']:
        self_test()
        return
    is_update = words[:1] == ['--update']
    root = (words[1:] if is_update else words or [None])[:1]
    root = root[0] if root and root[0] else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if is_update:
        update(root)
    found = check(root)
    print('\n'.join(found))
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
