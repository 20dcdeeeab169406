"""Test programs as they run without a mutant, for mutants.py: how long each test takes, and which points it reaches."""

import os


class Program:
    """A test program on the unchanged tree: its digest, whether it passed, and {test: (seconds, points that it reached)}.
    A program whose tests cannot be chosen has one, without a name."""

    def __init__(self, digest, passed, took, tests):
        self.digest, self.passed, self.took, self.tests = digest, passed, took, tests
        self.beginning = max(0, took - sum(seconds for seconds, _ in tests.values()))

    def seconds(self, chosen):
        return self.beginning + sum(self.tests[test][0] for test in chosen)


def read_trace(path, took, points):
    tests = {}
    if os.path.isfile(path):
        with open(path, encoding='utf-8') as file:
            lines = file.read().splitlines()
        for name, micros, *reached in (line.split(' ') for line in lines):
            before = tests.get(name, (0, []))
            tests[name] = (before[0] + int(micros) / 1e6, sorted({*before[1], *map(int, reached)}))
    return tests or {'': (took, points)}
