#!/usr/bin/env python3
"""Tests waits.py without a measurement: the rows of its tables, and the groups that its arguments choose. Prints TAP."""

import sys

import waits
from tap_of_functions import run_tests


def measured(key, name, rate, **figures):
    return {'key': key, 'rate': rate, 'line': {'name': name, **figures}}


def test_a_ratio_uses_the_runs_of_weir_beside_it():
    runs = [measured('weir', 'weir', 100, plain_per_s=200, children_per_s=100),
            measured('nflow', 'nFlow', 50, plain_per_s=20, children_per_s=50),
            measured('weir', 'weir', 300, plain_per_s=400, children_per_s=300)]
    assert waits.rows_of('children', runs) == [['weir', 300.0, 200.0, 1.0], ['nFlow', 20, 50, 0.25]]


def test_a_program_that_failed_has_no_row():
    runs = [measured('weir', 'weir', 1, plain_per_s=1, children_per_s=1), {'key': 'nflow', 'error': 'it ended with 1'}]
    assert [row[0] for row in waits.rows_of('children', runs)] == ['weir']


def test_a_table_names_its_figures():
    lines = waits.render('children', [measured('weir', 'weir', 1, plain_per_s=4000, children_per_s=12.5)])
    assert lines[0].split('  ')[0] == 'children' and 'children/s' in lines[0]
    assert lines[1].split() == ['weir', '4,000', '12.5', '1.000'], lines


def test_each_group_has_weir_and_its_ratio_among_the_figures():
    for name, group in waits.GROUPS.items():
        assert waits.BASE in group.counts and set(group.counts) <= set(waits.PROGRAMS), name
        assert group.rate in group.figures, name


if __name__ == '__main__':
    sys.exit(run_tests(globals()))
