#!/usr/bin/env python3
"""tests/promises.md and docs/design/lab.md name only tests that exist: each `place`: name ... is a file under tests/ with
that name in it. Each invariant of ARCHITECTURE.md and each promise of README.md has a row with a test.

usage: check_promises.py [--self-test]
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROMISES = 'tests/promises.md'
PAGES = (PROMISES, 'docs/design/lab.md')
REFERENCE = re.compile(r'`((?:tests|unit|conformance|end_to_end|interop|fuzz)/[a-z_/.]+)`((?::| \()[^`|;.]*)?')
DRIVERS = re.compile(r'^conformance/(sqlite|postgres)/')  # as meson names them: the file is the same


def read_test(place):
    """The text of the test that a place stands for, nothing for a folder; None when there is none."""
    place = DRIVERS.sub('conformance/', place.removeprefix('tests/'))
    for ending in ('', '.c', '_test.c', '.py', '_test.py', '.sh'):
        path = os.path.join(ROOT, 'tests', place + ending)
        if os.path.isfile(path):
            with open(path, encoding='utf-8') as file:
                return file.read()
    return '' if os.path.isdir(os.path.join(ROOT, 'tests', place)) else None


def reference_problems(text, read, page):
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        references = REFERENCE.findall(line)
        cells = [cell.strip() for cell in line.strip('|').split('|')] if line.startswith('| ') else []
        if page == PROMISES and len(cells) > 1 and cells[1].split(' ')[0] != 'test' and '`' not in line:
            problems.append(f'{page}:{number}: "{cells[0]}" has no test')
        for place, names in references:
            test = read(place)
            if test is None:
                problems.append(f'{page}:{number}: there is no test {place}')
                continue
            for name in re.findall(r'\b[a-z][a-z0-9]*(?:_[a-z0-9]+){2,}\b', names):
                if name not in test:
                    problems.append(f'{page}:{number}: {place} has no {name}')
    return problems


def section(text, title):
    found = re.search(rf'^## {title}\n(.*?)(?=^## |\Z)', text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ''


def missing_rows(promises, architecture, readme):
    """What the two texts promise and no row of the promises repeats."""
    wanted = re.findall(r'^(\d+\. .*)$', section(architecture, 'Invariants'), re.MULTILINE)
    wanted += re.findall(r'^- \*\*(.+?)\*\*', section(readme, 'What you can rely on'), re.MULTILINE)
    rows = {line.split('|')[1].strip() for line in promises.splitlines() if line.startswith('| ') and '`' in line}
    return [f'{PROMISES}: no row for "{promise}"' for promise in wanted if promise not in rows]


def self_test():
    tests = {'unit/a': 'static void one_two_three(void **state)'}
    assert reference_problems('| 1 | `unit/a`: one_two_three, and words |', tests.get, PROMISES) == []
    wrong = "| 1 | `unit/a`: one_two_three, one_two_four; `unit/b`: all |"
    assert len(reference_problems(wrong, tests.get, PROMISES)) == 2
    assert len(reference_problems('| a promise | later |', tests.get, PROMISES)) == 1
    architecture = '# A\n\n## Invariants\n\n1. One.\n2. Two.\n\n## Next\n\n3. None.\n'
    readme = '## What you can rely on\n\n- **Once.** Always.\n'
    rows = '| 1. One. | `unit/a` |\n| 2. Two. | `unit/a` |\n| Once. | `unit/a` |\n'
    assert missing_rows(rows, architecture, readme) == []
    assert len(missing_rows('| 1. One. | `unit/a` |\n', architecture, readme)) == 2


def read_page(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


if __name__ == '__main__':
    if sys.argv[1:] == ['--self-test']:
        self_test()
        sys.exit(0)
    found = missing_rows(read_page(PROMISES), read_page('ARCHITECTURE.md'), read_page('README.md'))
    for page in PAGES:
        found += reference_problems(read_page(page), read_test, page)
    print('\n'.join(found), end='\n' if found else '')
    sys.exit(1 if found else 0)
