#!/usr/bin/env python3
"""Counts what a run of `meson test` really did, names what failed or was skipped, and closes with one line of counts.

It reads meson's log of the run (BUILD/meson-logs/testlog.json) and the TAP lines in it itself. Meson's JUnit file has the
cases that a program reported, but not that the program crashed after its last report, ran fewer cases than it announced,
or said nothing at all; and it takes cmocka's way of reporting a skip ("not ok 3 # SKIP") for a failure.

usage: test_report.py BUILD [--meson-status N] [--plain] [--no-skips] | --self-test
Ends with 1 when a case failed, a program crashed or took too long, or no case was executed; with --no-skips also when one
was skipped.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile

TAIL_LINES = 40

CASE = re.compile(r'^\s*(?P<verdict>ok|not ok)\b\s*(?P<number>\d+)?\s*(?:-\s*)?(?P<name>.*?)\s*'
                  r'(?:#\s*(?P<directive>SKIP)\S*\s*(?P<reason>.*))?$', re.IGNORECASE)
PLAN = re.compile(r'^1\.\.(?P<count>\d+)\s*(?:#\s*(?P<skip>SKIP)\S*\s*(?P<reason>.*))?$', re.IGNORECASE)
NOTE = '# report: '


class Report:
    def __init__(self):
        self.passed = 0
        self.failed = []   # (name, lines that tell why)
        self.skipped = []  # (name, reason)
        self.notes = []    # what programs want to be read whatever the outcome: lines '# report: ...'

    def add_program(self, entry):
        name = entry['name'].split(' / ')[-1]
        lines = entry.get('stdout', '').splitlines()
        self.notes += [f'{name}: {line[len(NOTE):]}' for line in lines if line.startswith(NOTE)]
        plan = next((match for match in map(PLAN.match, lines) if match), None)
        if plan is None and not any(re.match(r'\s*(not )?ok\b', line) for line in lines):
            self.add_program_without_cases(name, entry)
            return

        if plan and plan['skip'] and plan['count'] == '0':
            self.skipped.append((name, plan['reason']))
            return
        executed, failed, skipped = self.add_cases(name, lines)
        problem = self.problem_of_program(entry, plan, executed, failed, skipped)
        if problem and plan and executed < int(plan['count']) and ' and ran ' not in problem:
            problem += f", after {executed} of {plan['count']} cases"
        if problem:
            self.failed.append((f'{name}: {problem}', tail(entry)))
        elif failed and entry.get('stderr', '').strip():
            last_name, last_lines = self.failed[-1]
            self.failed[-1] = (last_name, last_lines + tail({'stderr': entry['stderr']}))

    def add_program_without_cases(self, name, entry):
        result = entry['result']
        if result in ('OK', 'EXPECTEDFAIL'):
            self.passed += 1
        elif result == 'SKIP' and entry.get('returncode') == 77:
            self.skipped.append((name, 'the program says so (exit status 77)'))
        elif result == 'SKIP':
            self.failed.append((f'{name}: ran no test case', tail(entry)))
        else:
            self.failed.append((f'{name}: {ending(entry)}', tail(entry)))

    def add_cases(self, program, lines):
        executed = failed = skipped = 0
        for at, line in enumerate(lines):
            case = CASE.match(line)
            if not case:
                continue
            executed += 1
            # cmocka puts the name of a skipped case where others put the reason.
            name = f"{program}: {case['name'] or case['reason'] or case['number'] or 'a case without a name'}"
            if case['directive']:
                skipped += 1
                reason = case['reason'] if case['name'] and case['reason'] else 'the case gives no reason'
                self.skipped.append((name, reason))
            elif case['verdict'].lower() == 'ok':
                self.passed += 1
            else:
                failed += 1
                self.failed.append((name, lines_of_case(lines, at)))
        return executed, failed, skipped

    @staticmethod
    def problem_of_program(entry, plan, executed, failed, skipped):
        """What is wrong beside the cases that the program itself reports as failed; None when nothing is."""
        status = entry.get('returncode', 0)
        if entry['result'] in ('TIMEOUT', 'INTERRUPT') or status < 0:
            return ending(entry)
        if status != 0 and not failed:
            return ending(entry)
        if plan is None:
            return 'announced no number of cases'
        if executed == 0:
            return 'ran no test case'
        if executed != int(plan['count']):
            return f"announced {plan['count']} cases and ran {executed}"
        if entry['result'] not in ('OK', 'EXPECTEDFAIL', 'SKIP') and not failed and not skipped:
            return ending(entry)
        return None

    def print(self, plain):
        for name, lines in self.failed:
            print(f'\nFAILED {name}')
            for line in lines:
                print(f'    {line}')
        if self.skipped:
            print()
        for name, reason in self.skipped:
            print(f'SKIPPED {name} ({reason})')
        print()
        for note in self.notes:
            print(note)
        counts = (self.passed, len(self.failed), len(self.skipped))
        if plain:
            print('test cases passed: %d; failed: %d; skipped: %d' % counts)
        else:
            print('%d passed, %d failed, %d skipped' % counts)


def ending(entry):
    if entry['result'] == 'TIMEOUT':
        return f"took longer than it may ({entry.get('duration', 0):.0f} s)"
    status = entry.get('returncode', 0)
    if status < 0:
        try:
            return f'killed by {signal.Signals(-status).name}'
        except ValueError:
            return f'killed by signal {-status}'
    return f"ended with status {status}, which meson calls {entry['result']}"


def lines_of_case(lines, at):
    """The comment lines that follow the verdict, up to the next case."""
    end = at + 1
    while end < len(lines) and not CASE.match(lines[end]) and end - at <= TAIL_LINES:
        end += 1
    return lines[at + 1:end]


def tail(entry):
    result = []
    for stream in ('stdout', 'stderr'):
        lines = [line for line in entry.get(stream, '').splitlines()
                 if line and not re.match(r'\s*ok\b', line) and not line.startswith('(test program exited')]
        result += lines[-TAIL_LINES:]
    return result


def read_log(build):
    entries = []
    try:
        with open(os.path.join(build, 'meson-logs', 'testlog.json'), encoding='utf-8', errors='replace') as log:
            for line in log:
                entries.append(json.loads(line))
    except FileNotFoundError:
        pass
    return entries


def report_of(entries, meson_status):
    report = Report()
    for entry in sorted(entries, key=lambda entry: entry['name']):
        report.add_program(entry)
    if not report.passed and not report.failed:
        report.failed.append(('no test was executed', ['is the name right? meson test -C build --list shows them']))
    elif meson_status and not report.failed and not report.skipped:
        report.failed.append((f'meson test ended with status {meson_status}, though no test failed', []))
    return report


def self_test():
    def counts(result, stdout, status=0):
        report = report_of([{'name': 'weir:unit / it', 'result': result, 'stdout': stdout, 'returncode': status}], 0)
        return report.passed, len(report.failed), len(report.skipped)

    expected = [
        (('OK', '1..2\nok 1 - a\nok 2 - b\n'), (2, 0, 0)),
        (('OK', '1..2\nok 1 - a\nok 2 - b # SKIP no network\n'), (1, 0, 1)),
        (('ERROR', '1..2\nok 1 - a\nnot ok 2 # SKIP b\n'), (1, 0, 1)),
        (('ERROR', '1..2\nok 1 - a\nnot ok 2 - b\n# why\n', 1), (1, 1, 0)),
        (('ERROR', '1..3\nok 1 - a\n'), (1, 1, 0)),
        (('ERROR', '1..1\nok 1 - a\n', -11), (1, 1, 0)),
        (('ERROR', '1..2\nok 1 - a\nnot ok 2 - b\n', -6), (1, 2, 0)),
        (('ERROR', '1..1\nok 1 - a\n', 3), (1, 1, 0)),
        (('TIMEOUT', '1..1\nok 1 - a\n', -15), (1, 1, 0)),
        (('SKIP', '1..0\n'), (0, 1, 0)),
        (('SKIP', ''), (0, 1, 0)),
        (('OK', 'hello\n'), (1, 0, 0)),
        (('FAIL', 'hello\n', 1), (0, 1, 0)),
        (('UNEXPECTEDPASS', 'hello\n'), (0, 1, 0)),
    ]
    for arguments, wanted in expected:
        assert counts(*arguments) == wanted, (arguments, counts(*arguments), wanted)
    slow = report_of([{'name': 'weir:unit / it', 'result': 'TIMEOUT', 'stdout': '1..3\nok 1 - a\n', 'returncode': -15}], 0)
    assert slow.failed[0][0] == 'it: took longer than it may (0 s), after 1 of 3 cases', slow.failed
    noted = report_of([{'name': 'weir:unit / it', 'result': 'OK', 'stdout': '1..1\nok 1 - a\n# report: 3 s\n'}], 0)
    assert noted.notes == ['it: 3 s'] and not noted.failed
    assert report_of([], 0).failed and report_of([], 1).failed
    assert report_of([{'name': 'it', 'result': 'OK', 'stdout': ''}], 1).failed
    with tempfile.TemporaryDirectory() as folder:
        assert read_log(folder) == []


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('build', nargs='?')
    arguments.add_argument('--meson-status', type=int, default=0, help='what `meson test` ended with')
    arguments.add_argument('--plain', action='store_true', help='counts in other words than the closing line of a test run')
    arguments.add_argument('--no-skips', action='store_true', help='a skipped case is a failure')
    arguments.add_argument('--self-test', action='store_true')
    options = arguments.parse_args()
    if options.self_test:
        self_test()
        return 0
    if options.build is None:
        arguments.error('which build folder?')
    report = report_of(read_log(options.build), options.meson_status)
    report.print(options.plain)
    return 1 if report.failed or (options.no_skips and report.skipped) else 0


if __name__ == '__main__':
    sys.exit(main())
