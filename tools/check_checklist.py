#!/usr/bin/env python3
"""docs/checklist.md and docs/design/lab.md name only tests that exist: each `place`: name ... must be a file under tests/
with that name in it.

usage: check_checklist.py [--self-test]
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REFERENCE = re.compile(r'`((?:tests|unit|conformance|end_to_end|interop|fuzz)/[a-z_/.]+)`((?::| \()[^`|;.]*)?')
DRIVERS = re.compile(r'^conformance/(sqlite|postgres)/')  # as meson names them: the file is the same


def read_test(place):
    """The text of the test that a place stands for, nothing for a folder; None when there is none."""
    place = DRIVERS.sub('conformance/', place.removeprefix('tests/'))
    for ending in ('', '.c', '_test.c', '.py', '_test.py', '.sh'):
        path = os.path.join(ROOT, 'tests', place + ending)
        if os.path.isfile(path):
            with open(path) as file:
                return file.read()
    return '' if os.path.isdir(os.path.join(ROOT, 'tests', place)) else None


def problems_of(text, read=read_test, page='docs/checklist.md'):
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        for place, names in REFERENCE.findall(line):
            test = read(place)
            if test is None:
                problems.append(f'{page}:{number}: there is no test {place}')
                continue
            for name in re.findall(r'\b[a-z][a-z0-9]*(?:_[a-z0-9]+){2,}\b', names):
                if name not in test:
                    problems.append(f'{page}:{number}: {place} has no {name}')
    return problems


def self_test():
    tests = {'unit/a': 'static void one_two_three(void **state)'}
    assert problems_of('| 1 | `unit/a`: one_two_three, and words |', tests.get) == []
    assert len(problems_of('| 1 | `unit/a`: one_two_three, one_two_four; `unit/b`: all |', tests.get)) == 2


if __name__ == '__main__':
    if sys.argv[1:] == ['--self-test']:
        self_test()
        sys.exit(0)
    found = []
    for page in ('docs/checklist.md', 'docs/design/lab.md'):
        with open(os.path.join(ROOT, page)) as file:
            found += problems_of(file.read(), page=page)
    print('\n'.join(found), end='\n' if found else '')
    sys.exit(1 if found else 0)
