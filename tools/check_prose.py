#!/usr/bin/env python3
"""Prose as a test: comments, SQL, documents, messages and commit subjects are plain sentences with an actor and a verb.

usage: check_prose.py [ROOT] | --figures [ROOT] | --accept | --self-test

Per area and per 1,000 words it counts clauses that stand in place of nouns ("what", "who"), verbs of people for programs
("tell", "say", "word") and pronouns without a person ("nobody", "somebody", "others"), and it takes the mean length of
a sentence. GOAL is the aim. LIMITS holds the areas that have not reached it yet: a figure may only fall, and a change that
lowers one lowers its limit. `--figures` prints the present ones. `--accept` writes them as limits: after a mend, or for a
merge of branches that did not know each other's texts.

RULES holds for each comment: it does not begin with "Who" or "What", and no program is a "he". In src/ a sentence of a
comment has at most SENTENCE_MOST words, too. A list in columns, a diagram, the shape of a JSON object and the parameters of
a statement are no sentences. No comment may break one of them.
"""

import math
import os
import re
import subprocess
import sys
import tempfile

from check_style import TOKEN, files_of

GOAL = {'what': 3.0, 'who': 1.0, 'tell': 1.0, 'nobody': 2.0, 'mean': 20.0}
COUNTED = {
    'what': re.compile(r'\b(what|whatever)\b', re.IGNORECASE),
    'who': re.compile(r'\b(who|whoever|whose)\b', re.IGNORECASE),
    'tell': re.compile(r'\b(tell|tells|telling|told|say|says|saying|said|word|words)\b', re.IGNORECASE),
    'nobody': re.compile(r'\b(nobody|somebody|others)\b', re.IGNORECASE),
}
MEANING = {'what': 'what/whatever', 'who': 'who/whoever/whose', 'tell': 'tell/say/told/word',
           'nobody': 'nobody/somebody/others', 'mean': 'words in a sentence'}
REMEDY = {
    'what': 'use a noun: "the freed slot", not "what is freed"',
    'who': 'name the actor: "a node that lost its lease", not "who lost its lease"',
    'tell': 'use a verb of the field: reports, logs, returns, records',
    'nobody': 'name the actor: "no node", "the other workspaces"',
    'mean': 'one idea in a sentence; a rule, then its reason, then the exception',
}

# The areas that are above the goal, with their limits. An area that is not listed keeps the goal.
LIMITS = {
    'tests': {'what': 4.4, 'tell': 1.5},
    'tests/promises.md': {'mean': 21.6},
}

SENTENCE_MOST = 30
RULES = {
    'begins': ('comments that begin with Who or What', 'begin with a noun or a verb'),
    'person': ('comments with a "he"', 'name the caller, the node or the thread'),
    'long': (f'sentences of comments with more than {SENTENCE_MOST} words', 'one idea in a sentence'),
}
BEGINNING = re.compile(r'\s*(Who|Whoever|Whose|What|Whatever)\b')
PERSON = re.compile(r'\b(he|his|him|himself)\b', re.IGNORECASE)

# The first commit under the rule for subjects.
SUBJECTS_SINCE = 'c3231400ff9d'
SUBJECT_MOST = 72
SUBJECT = re.compile(r'^[a-z][a-z0-9 ,/_.-]*: \S')

FOLDERS = ('src', 'include', 'examples', 'clients', 'tests', 'bench')  # of C and SQL
SKIPPED = ('tests/fuzz/corpus/', 'LICENSE', 'docs/commands.md', 'docs/state_machine.md', 'bench/notes/')
STOP = '\x00'  # the end of a sentence without a full stop: of a cell, an entry, a paragraph, a comment


def area_of(path):
    """The area of a file: its room and the kind of its text, or None when it has no prose."""
    if path.startswith(SKIPPED):
        return None
    if path.endswith('.md'):
        return path
    if path.endswith('.sql') and path.startswith('src/'):
        return room_of(path) + ' SQL'
    if path.endswith(('.c', '.h')) and path.split('/')[0] in FOLDERS:
        return room_of(path)
    return None


def room_of(path):
    """Of src/ two folders, src/store/sqlite for example; elsewhere the first one."""
    folders = path.split('/')[:-1]
    return '/'.join(folders[:3] if folders[0] == 'src' else folders[:1])


def comments_of(path, text):
    if path.endswith('.sql'):
        groups = re.findall(r'(?:^[ \t]*--[^\n]*\n?)+|--[^\n]*', text, re.MULTILINE)
        return [re.sub(r'^[ \t]*--', '', group, flags=re.MULTILINE) for group in groups if '-- name:' not in group[:10]]
    found = []
    for token in TOKEN.finditer(text):
        value = token.group()
        if value.startswith('/*'):
            found.append(re.sub(r'^\s*\*', '', value[2:-2], flags=re.MULTILINE))
        elif value.startswith('//'):
            found.append(value[2:])
    return found


def messages_of(text):
    """Texts for people: string constants with at least four words, joined as the compiler joins them. Comments left out."""
    joined, end = [], None
    for token in TOKEN.finditer(text):
        value = token.group()
        if value[0] != '"':
            continue
        if end is not None and not text[end:token.start()].strip():
            joined[-1] += value[1:-1]
        else:
            joined.append(value[1:-1])
        end = token.end()
    return [re.sub(r'\\n|%[-0-9.*]*[a-zA-Z]+', ' x ', text) for text in joined
            if len(re.findall(r'[a-z]{2,}', text)) >= 4 and not re.search(r'\bSELECT\b|^\{', text)]


def plain(text):
    """Markdown or a comment without code, figures and diagrams; STOP where a sentence ends without a full stop."""
    text = re.sub(r'^```.*?^```', STOP, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'`[^`]*`', 'code', text)
    text = re.sub(r'\{"(?:[^{}]|\{[^{}]*\})*\}', 'code', text)  # the shape of a JSON object
    text = re.sub(r'[$?]\d+ ', STOP, text)  # each parameter of a statement is an entry of a list
    text = re.sub(r'\]\([^)]*\)', ']', text)
    lines = []
    for line in text.split('\n'):
        stripped = line.strip()
        if not stripped or re.fullmatch(r'[|\-: ]+', stripped):
            lines.append(STOP)
        elif re.search(r'--+>|<--+|[+|]--|\s---\s|\s\|\s.*\|\s*$|\bX\(', line) and not stripped.startswith('|'):
            lines.append(STOP)  # a line of a diagram
        elif stripped.startswith('|'):
            lines.append(stripped.replace('|', STOP))
        elif re.match(r'([-*#>]+|\d+\.)\s', stripped):
            lines.append(STOP + re.sub(r'^([-*#>]+|\d+\.)\s', '', stripped))
        elif re.search(r'\S {3,}\S', stripped) or re.match(r' {2,}\S.*\S {2}\S', line):
            lines.append(STOP + re.sub(r' {2,}', STOP, stripped))  # a list in columns
        else:
            lines.append(stripped)
    return '\n'.join(lines) + STOP


def sentences_of(text):
    parts = re.split(r'[.!?](?=[\s)"\']|$)|' + STOP, text)
    return [words for words in (re.findall(r"[A-Za-z][A-Za-z'’-]*", part) for part in parts) if words]


class Figures:
    def __init__(self):
        self.words = 0
        self.sentences = 0
        self.counts = dict.fromkeys(COUNTED, 0)
        self.places = {kind: [] for kind in COUNTED}

    def add(self, text, path):
        text = plain(text)
        sentences = sentences_of(text)
        self.words += sum(len(words) for words in sentences)
        # Terms of one or two words are not sentences: they would hide the long ones.
        self.sentences += sum(1 for words in sentences if len(words) > 2)
        for kind, pattern in COUNTED.items():
            hits = len(pattern.findall(text))
            self.counts[kind] += hits
            if hits:
                self.places[kind].append((hits, path))

    def rates(self):
        words = max(self.words, 1000)  # three words in a short text are no rate
        rates = {kind: round(1000.0 * count / words, 2) for kind, count in self.counts.items()}
        rates['mean'] = round(self.words / max(self.sentences, 1), 2)
        return rates


def measure(root):
    areas = {}
    for path in files_of(root):
        area = area_of(path)
        if area is None:
            continue
        with open(os.path.join(root, path), encoding='utf-8') as source:
            text = source.read()
        if path.endswith('.md'):
            areas.setdefault(area, Figures()).add(text, path)
            continue
        for comment in comments_of(path, text):
            areas.setdefault(area, Figures()).add(comment, path)
        if path.startswith('src/') and path.endswith(('.c', '_commands.h')):
            for message in messages_of(text):
                areas.setdefault('messages', Figures()).add(message, path)
    return areas


class Comments:
    """The places where a comment breaks one of the rules of RULES, per rule and area."""

    def __init__(self):
        self.places = {rule: {} for rule in RULES}

    def add(self, path, comment):
        area = area_of(path)

        def found(rule, words):
            self.places[rule].setdefault(area, []).append(f'    {path}: "{" ".join(words[:8])} ..."')

        if BEGINNING.match(comment):
            found('begins', comment.split())
        if PERSON.search(comment):
            found('person', comment[max(PERSON.search(comment).start() - 20, 0):].split())
        for words in sentences_of(plain(comment)) if path.startswith('src/') else ():
            if len(words) > SENTENCE_MOST:
                found('long', words)

    def counts(self):
        counts = {}
        for rule, areas in self.places.items():
            for area, places in areas.items():
                counts.setdefault(area, {})[rule] = len(places)
        return counts

    def problems(self):
        found = []
        for rule, areas in self.places.items():
            wrong, remedy = RULES[rule]
            for area, places in sorted(areas.items()):
                found.append(f'{area}: {len(places)} {wrong}\n    {remedy}\n' + '\n'.join(places))
        return found


def read_comments(root):
    found = Comments()
    for path in files_of(root):
        if path.endswith(('.c', '.h', '.sql')) and area_of(path) is not None:
            with open(os.path.join(root, path), encoding='utf-8') as source:
                for comment in comments_of(path, source.read()):
                    found.add(path, comment)
    return found


def worst(places):
    totals = {}
    for hits, path in places:
        totals[path] = totals.get(path, 0) + hits
    return ', '.join(f'{path} ({hits})' for path, hits in sorted(totals.items(), key=lambda item: -item[1])[:3])


def problems_of(areas, limits, goal=None):
    problems = []
    for area, figures in sorted(areas.items()):
        for kind, rate in figures.rates().items():
            limit = max(limits.get(area, {}).get(kind, 0), (goal or GOAL)[kind])
            if rate > limit:
                where = f'; most in {worst(figures.places[kind])}' if kind in COUNTED else ''
                per = '' if kind == 'mean' else ' per 1,000 words'
                problems.append(f'{area}: {rate} {MEANING[kind]}{per}; {limit} is the most{where}\n    {REMEDY[kind]}')
    return problems


def accept(areas):
    lines = []
    for area, figures in sorted(areas.items()):
        over = {kind: math.ceil(rate * 10) / 10 for kind, rate in figures.rates().items() if rate > GOAL[kind]}
        lines += [f'    {area!r}: {over},\n'] if over else []
    path = os.path.abspath(__file__)
    with open(path, encoding='utf-8') as source:
        text = source.read()
    text = re.sub(r'^LIMITS = \{.*?\}\n(?=\n)', lambda _: 'LIMITS = {\n' + ''.join(lines) + '}\n', text, count=1,
                  flags=re.DOTALL | re.MULTILINE)
    with open(path, 'w', encoding='utf-8') as target:
        target.write(text)


def subject_problems(subjects):
    problems = []
    for subject in subjects:
        if subject.startswith(('Merge ', 'Revert ')):
            continue
        if len(subject) > SUBJECT_MOST:
            problems.append(f'commit "{subject}": {len(subject)} characters; {SUBJECT_MOST} is the most')
        elif not SUBJECT.match(subject):
            problems.append(f'commit "{subject}": write "area: what changes"')
        elif re.match(r'[^:]*: (what|whatever|who|whoever|whose)\b', subject):
            problems.append(f'commit "{subject}": begin with a noun or a verb')
    return problems


def subjects_of(root):
    """Nothing without git, or where the history does not go back so far."""
    result = subprocess.run(['git', '-C', root, 'log', '--no-merges', '--format=%s', f'{SUBJECTS_SINCE}..HEAD'],
                            capture_output=True, text=True, check=False)
    return result.stdout.splitlines() if result.returncode == 0 else []


def self_test_comments():
    most = 'a word ' * (SENTENCE_MOST // 2)
    for path, comment, rule in (('src/a/x.c', ' What it holds.', 'begins'), ('src/a/x.c', ' Holds what is new.', None),
                                ('tests/x.c', ' Whoever calls.', 'begins'),
                                ('src/a/x.c', ' The node ends; he stops.', 'person'),
                                ('src/a/x.c', ' There the header is.', None), ('src/a/x.c', f' {most}.', None),
                                ('src/a/x.c', f' {most} more.', 'long'), ('tests/x.c', f' {most} more.', None),
                                ('src/a/x.c', f' {most}. {most}.', None), ('src/a/q.sql', f' {most} more.', 'long'),
                                ('src/a/x.c', ' It has {"a": 1, "b": ' + most + '} and no more.', None),
                                ('src/a/q.sql', f' $1 {most}, $2 {most}.', None)):
        comments = Comments()
        comments.add(path, comment)
        assert comments.counts() == ({area_of(path): {rule: 1}} if rule else {}), (path, comment)
        assert len(comments.problems()) == (1 if rule else 0)


def self_test():
    bad = '/* What is told to whoever says so is what nobody knows. */\nint a;\n'
    long = '/* ' + 'a sentence without an end ' * 8 + '. */\nint a;\n'
    good = '/* The scheduler releases the slot. It reads the news first; `what()` is code. */\nint a;\n'
    for name, text, wanted in (('src/base/x.c', bad * 40, 4), ('src/base/x.c', long, 1), ('src/base/x.c', good * 40, 0),
                               ('docs/x.md', '# What it says\n\nWhat is told.\n\n```\nwhat what\n```\n' * 4, 2),
                               ('docs/x.md', '```\nwhat what what who who tell\n```\n| a | b |\n|---|---|\n', 0),
                               ('src/store/sqlite/queries/x.sql', '-- What is said.\nSELECT 1; -- what is said\n' * 4, 2),
                               ('src/novel/x.c', bad * 40, 4), ('src/x.c', bad * 40, 4), ('examples/x.c', bad * 40, 4),
                               ('src/cli/arguments/x_commands.h', '    "what is told to all"\n' * 9, 2),
                               ('src/cli/x.c', 'const char *a = "what is told to " "somebody is said by all";\n' * 4, 3)):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.dirname(os.path.join(root, name)))
            with open(os.path.join(root, name), 'w', encoding='utf-8') as target:
                target.write(text)
            found = problems_of(measure(root), {})
            assert len(found) == wanted, (name, text[:60], found)
    self_test_comments()
    figures = Figures()
    figures.add('what ' * 5 + 'is here. ' * 3, 'x')
    assert problems_of({'docs/x.md': figures}, {'docs/x.md': {'what': 5.0}}) == []
    assert len(problems_of({'docs/x.md': figures}, {'docs/x.md': {'what': 4.9}})) == 1
    assert subject_problems(['queue: order by rank', 'Merge branch x', 'docs, tests: names']) == []
    assert len(subject_problems(['Let it be', 'queue: what is told', 'queue: ' + 'x' * SUBJECT_MOST])) == 3


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return 0
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith('--')]
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    areas = measure(root)
    comments = read_comments(root)
    if '--accept' in sys.argv[1:]:
        accept(areas)
        return 0
    if '--figures' in sys.argv[1:]:
        print(f'{"area":34} {"words":>6} ' + ' '.join(f'{kind:>6}' for kind in GOAL))
        for area, figures in sorted(areas.items()):
            print(f'{area:34} {figures.words:6} ' + ' '.join(f'{rate:6}' for rate in figures.rates().values()))
        return 0
    problems = problems_of(areas, LIMITS) + comments.problems() + subject_problems(subjects_of(root))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
