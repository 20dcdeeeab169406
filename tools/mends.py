#!/usr/bin/env python3
"""The mends of tests/mutants/mends.json, taken out one by one: does the part of the lab beside each find the attack?

Each is one change of the source that opens an attack again. It is made in a copy of the tree; the program named there runs,
and the test named there must fail. docs/design/lab.md shows the same attacks.

  mends.py [--only TEXT]    those whose attack, file or program contains TEXT
           [--folder F]     the copy and its build; that of tools/mutants.py, so do not run both at once
           [--list]
  mends.py --check          only that each change still fits the source, and that its test exists, in a second

Ends with 1 when an attack was not found.
"""

import argparse
import json
import os
import re
import signal
import sys

import mutants

SECONDS_MOST = 240  # a test that waits for ever has found the attack too
LISTED = os.path.join(mutants.ROOT, 'tests/mutants/mends.json')


def read_mends(only):
    mends = json.loads(mutants.read(LISTED))
    wanted = [mend for mend in mends if any(only in mend[key] for key in ('attack', 'file', 'program'))]
    for mend in mends:
        count = mutants.read(os.path.join(mutants.ROOT, mend['file'])).count(mend['old'])
        if count != 1:
            sys.exit(f'mends: {mend["file"]} has {count} times: {mend["old"]}')
    return wanted


def require_tests(mends):
    words = set()
    for folder, _, names in os.walk(os.path.join(mutants.ROOT, 'tests')):
        for name in names:
            if name.endswith(('.c', '.h', '.py')):
                words.update(re.findall(r'\w+', mutants.read(os.path.join(folder, name))))
    for mend in mends:
        if mend['test'] and mend['test'] not in words:
            sys.exit(f'mends: no test has the name {mend["test"]} ({mend["attack"]})')


def failed_tests(output):
    return re.findall(r'^not ok \d+ - (\w+)', output, re.M)


def take_out(copy, test, mend):
    """What happened, and whether that is what it should be."""
    path = os.path.join(copy.tree, mend['file'])
    text = mutants.read(path)
    mutants.write(path, text.replace(mend['old'], mend['new']))
    try:
        if not copy.compile(test['targets']):
            return 'it does not compile', False
        is_script = any(word.endswith('.py') for word in test['cmd'])  # these take the names of tests
        words = test['cmd'] + [mend['test']] * (is_script and mend['test'] != '')
        passed, _, output = copy.call({**test, 'cmd': words}, SECONDS_MOST, until_failure=False)
    finally:
        mutants.write(path, text)
    failed = failed_tests(output)
    if '# no end in time' in output and mend['test'] not in failed:
        return 'found: the test has no end', True
    if passed or (mend['test'] and mend['test'] not in failed):
        return f'NOT FOUND; failed: {", ".join(failed) or "nothing"}', False
    return f'found by {", ".join(failed[:3]) or "the end of the program"}', True


def run(options):
    mends = read_mends(options.only)
    require_tests(mends)
    if options.check or options.list:
        for mend in mends if options.list else ():
            print(f'{mend["attack"]}: {mend["file"]}; {mend["program"]}: {mend["test"] or "any"}')
        return 0
    copy = mutants.Copy(options.folder)
    copy.refresh()
    tests = copy.tests()
    found = 0
    with copy.with_template():
        for mend in mends:
            what, is_found = take_out(copy, tests[mend['program']], mend)
            found += is_found
            print(f'{mend["attack"]}: {what} ({mend["program"]})', flush=True)
    print(f'# {found} of {len(mends)} attacks were found without their mend')
    return 0 if found == len(mends) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', default='')
    parser.add_argument('--folder', default=os.path.join(mutants.ROOT, 'build-mutants'))
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--check', action='store_true')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the program under way ends too
    sys.exit(run(options))


if __name__ == '__main__':
    main()
