#!/usr/bin/env python3
"""Documents as a test: a long page has a table of contents, a sentence has at most 30 words, and the glossary has one
sentence for each term, in the order of the alphabet. ARCHITECTURE.md has at most MAP_LINES_MOST lines.

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


def check(root):
    found = []
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


def self_test():
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
