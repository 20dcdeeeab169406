#!/usr/bin/env python3
"""Tests the rows and goals of `./dev bench languages`, without a server or a queue. Prints TAP."""

import sys

import goals
import languages
from tap_of_functions import run_tests


def run(key, rate):
    return {'key': key, 'rate': rate}


def row(groups, text):
    found = [one for one in goals.rows(groups) if text in one.what or text in one.other]
    assert len(found) == 1, [one.what for one in found]
    return found[0]


def a_ratio_goes_through_the_base_of_the_same_minute():
    # The machine is twice as slow while the second half is measured.
    group = [run('weir-threads', 100), run('weir-async', 80), run('weir-threads', 100), run('weir-threads', 50),
             run('procrastinate', 10), run('weir-threads', 50)]
    assert goals.ratio(group, 'weir-threads', 'weir-async', 'procrastinate') == 4
    assert goals.ratio(group, 'weir-threads', 'weir-threads', 'procrastinate') == 5
    assert goals.ratio(group, 'weir-threads', 'weir-threads', 'celery') is None


def a_difference_is_that_to_the_base_beside_it():
    group = [run('handler', 10), run('python', 25), run('handler', 12), run('python', 44), run('handler', 30)]
    assert goals.difference(group, 'handler', 'python') == 18.5  # of 14 and 23
    assert goals.difference(group, 'handler', 'node') is None


def a_latency_may_be_at_most_the_goal():
    group = [run('weir-threads', 6), run('procrastinate', 5), run('weir-threads', 6)]
    found = row({'python-latency': group}, '8 threads')
    assert found.measured == 1.2 and found.is_met and found.is_most, vars(found)
    slower = [run('weir-threads', 6.1), run('procrastinate', 5), run('weir-threads', 6.1)]
    assert row({'python-latency': slower}, '8 threads').is_met is False


def a_rate_must_be_at_least_the_goal():
    def group(rate):
        return {'node-drain': [run('weir-node', rate), run('pg-boss', 100), run('weir-node', rate)]}
    assert row(group(200), 'pg-boss').is_met is True
    assert row(group(199), 'pg-boss').is_met is False


def a_queue_that_was_not_measured_does_not_meet_the_goal():
    found = row({'node-drain': [run('weir-node', 100), {'key': 'pg-boss', 'error': 'no npm'}]}, 'pg-boss')
    assert found.is_met is False and found.cells(False)[-1] == found.cells(True)[-1] == 'not measured'


def a_quick_run_judges_nothing():
    found = row({'node-drain': [run('weir-node', 100), run('pg-boss', 100), run('weir-node', 100)]}, 'pg-boss')
    assert found.cells(True)[-1] == '(quick)' and found.cells(False)[-1] == 'NO'


def the_goals_of_a_worker_are_upper_limits():
    handler = run('handler', 10)
    groups = {'processor': [handler, run('python-native', 30), handler, run('python', 99), handler, run('node', 30.1),
                            handler],
              'python-start-SQLite': [run('python', 150)], 'node-start-SQLite': [run('node', 151)],
              'python-memory-SQLite': [run('bare', 10), run('python', 25), run('bare', 10)],
              'node-memory-SQLite': [run('bare', 10), run('node', 33.5), run('bare', 10), run('without-weir', 18),
                                     run('bare', 10)],
              'sqlite-latency': [run('handler', 2), run('weir-threads', 5), run('handler', 2)]}
    met = {row.what: row.is_met for row in goals.rows(groups)}
    assert len(met) == 9 and [what for what, is_met in met.items() if is_met is False] == [
        'Node, with the interpreter: processor of the binding for each call', 'Node, SQLite: import to first call',
        'the same beside functions without weir'], met


def a_worker_of_node_is_compared_with_the_same_functions_without_weir():
    bare = run('bare', 10)
    groups = {'node-memory-SQLite': [bare, run('node', 30), bare, run('without-weir', 18), bare]}
    own, bare = row(groups, 'without weir'), row(groups, 'memory of a worker')
    assert own.measured == 12 and own.is_met is True
    assert bare.measured == 20 and bare.is_met is None


def the_binding_of_python_is_judged_apart_from_the_interpreter():
    handler = run('handler', 10)
    groups = {'processor': [handler, run('python-native', 12), handler, run('python', 45), handler]}
    native, whole = row(groups, 'C and C API alone'), row(groups, 'Python, with the interpreter')
    assert native.measured == 2 and native.is_met is True
    assert whole.measured == 35 and whole.is_met is None


def every_program_that_failed_is_named_once():
    broken = {'key': 'celery', 'error': 'no server'}
    assert goals.errors({'python-drain': [run('weir-threads', 1), broken, broken]}) == ['python-drain: celery: no server']


def every_group_and_program_of_the_driver_has_a_row():
    groups = {}
    for name, (_, _, base, programs) in languages.GROUPS.items():
        groups[name] = [run(key, 1) for other in programs for key in (base, other, base)]
    groups['python-latency-functions'] = groups['python-latency']
    rows = goals.rows(groups)
    assert all(row.measured is not None for row in rows), [row.what for row in rows if row.measured is None]
    assert len(rows) == 31, len(rows)
    assert sum(row.goal is not None for row in rows) == 23, [row.what for row in rows if row.goal is not None]


if __name__ == '__main__':
    sys.exit(run_tests(globals()))
