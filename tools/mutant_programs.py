"""Test programs as they run without a mutant, for mutants.py: how long each test takes, and which points it reaches."""

import os

SECONDS_SHORT = 2  # of a test that goes with others
SECONDS_PART = 10  # of tests that meet a mutant together, beside the beginning of their program
SECONDS_LONG = 25  # more than this, and a test judges nothing
SECONDS_WHOLE = 70  # of a program before its first run


class Program:
    """A test program on the unchanged tree: its digest, whether it passed, and {test: (seconds, points that it reached)}.
    A program whose tests cannot be chosen has one, without a name."""

    def __init__(self, digest, passed, took, tests):
        self.digest, self.passed, self.took, self.tests = digest, passed, took, tests
        self.beginning = max(0, took - sum(seconds for seconds, _ in tests.values()))

    def parts(self, chosen):
        """Of the chosen tests those that take little time each, in lists of a few seconds; then the others, one by one.
        Those that take very long judge nothing, unless they are a whole program."""
        parts, spent = [[]], 0
        for test in sorted(chosen, key=lambda test: self.tests[test][0] > SECONDS_SHORT):
            seconds = self.tests[test][0]
            if seconds > SECONDS_LONG and test:
                continue
            if parts[-1] and (seconds > SECONDS_SHORT or spent + seconds > SECONDS_PART):
                parts.append([])
                spent = 0
            parts[-1].append(test)
            spent += seconds
        return [part for part in parts if part]

    def seconds(self, chosen):
        return self.beginning + sum(self.tests.get(test, (SECONDS_PART,))[0] for test in chosen)


def read_trace(path, took, points):
    tests = {}
    if os.path.isfile(path):
        with open(path, encoding='utf-8') as file:
            lines = file.read().splitlines()
        for name, micros, *reached in (line.split(' ') for line in lines):
            before = tests.get(name, (0, []))
            tests[name] = (before[0] + int(micros) / 1e6, sorted({*before[1], *map(int, reached)}))
    return tests or {'': (took, points)}


def unknown(tests):
    """A program before its first run."""
    return Program('', True, 0, {test: (SECONDS_PART if test else SECONDS_WHOLE, []) for test in tests})


def read_likely(path):
    """{mutant: [(program, its tests)]} of a file with lines "ID PROGRAM TEST,TEST", and a program may be all there is."""
    likely = {}
    with open(path, encoding='utf-8') as file:
        for line in file:
            id, name, *tests = line.split()
            likely.setdefault(id, []).append((name, tests[0].split(',') if tests else ['']))
    return likely


def self_test():
    seconds = {'a': 1, 'b': 5, 'c': 0.5, 'd': 9, 'e': 1.5, 'f': 40}
    program = Program('0', True, 60, {test: (took, []) for test, took in seconds.items()})
    assert program.parts('abcdef') == [['a', 'c', 'e'], ['b'], ['d']], program.parts('abcdef')
    assert program.parts('f') == [] and program.parts('') == []
    assert program.seconds('ac') == program.beginning + 1.5
    many = Program('0', True, 30, {str(i): (1.5, []) for i in range(20)})
    assert [len(part) for part in many.parts(map(str, range(20)))] == [6, 6, 6, 2]
    assert Program('0', True, 31, {'': (31, [])}).parts(['']) == [['']]
