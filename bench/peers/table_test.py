#!/usr/bin/env python3
"""Tests the tables of `./dev bench peers`, its catalogue and its lock files, without a server or a queue. Prints TAP."""

import json
import os
import re
import sys

import table
from catalogue import BASES, GUARANTEES, PEERS
from tap_of_functions import run_tests

HERE = os.path.dirname(os.path.abspath(__file__))


def run(key, rate, seconds=5):
    return {'key': key, 'rate': rate, 'jobs': 10, 'seconds': seconds}


def row(**changes):
    return {'key': 'a', 'name': 'A', 'version': '1', 'jobs': 1000, 'rate': 1234.5, 'rate_min': 1000, 'rate_max': 2000,
            'ratio': 0.5, 'settings': 'fast', 'starts_ten_instead': None, 'claim_alone_ms': 1.5,
            'claim_behind_full_ms': None, 'notes': 'Notes.', 'guarantees': dict.fromkeys(GUARANTEES, 'none'), 'errors': [],
            'seconds': 5, 'full_tenant_running': 1, 'start_settings': None, **changes}


def read(path):
    with open(os.path.join(HERE, path), encoding='utf-8') as file:
        return file.read()


def a_ratio_divides_by_the_mean_of_the_runs_of_weir_beside_it():
    runs = [run('weir', 100), run('a', 50), run('weir', 300), run('b', 600), run('weir', 100)]
    assert table.ratios(runs, 'weir') == {'a': [0.25], 'b': [3.0]}


def a_failed_run_of_weir_is_passed_over():
    runs = [run('weir', 100), run('a', 50), {'key': 'weir', 'error': 'x'}, run('b', 50)]
    assert table.ratios(runs, 'weir') == {'a': [0.5], 'b': [0.5]}


def without_weir_there_is_no_ratio():
    summary = table.summarise([run('a', 50)], 'weir')
    assert summary['a']['ratio'] is None and summary['a']['rate'] == 50


def medians_count_and_the_spread_is_kept():
    runs = [run('weir', 100), *(one for rate in (10, 90, 20) for one in (run('a', rate), run('weir', 100)))]
    summary = table.summarise(runs, 'weir')
    assert (summary['a']['rate'], summary['a']['rate_min'], summary['a']['rate_max']) == (20, 10, 90), summary
    assert summary['a']['ratio'] == 0.2 and summary['weir']['ratio'] == 1.0 and summary['a']['runs'] == 3


def a_queue_that_failed_has_a_row_and_a_remark():
    summary = table.summarise([run('weir', 100), {'key': 'a', 'error': 'no npm'}], 'weir')['a']
    assert summary['rate'] is None and summary['errors'] == ['no npm']
    lines = table.render([row(**{**summary, 'seconds': None})], 100000)
    assert re.search(r'^A +1 +1,000 +- +- +- ', lines[1]), lines
    assert table.remarks([row(**summary)], False) == ['A: failed: no npm']


def numbers_are_aligned_right_and_texts_left():
    assert table.layout(['name', 'rate'], [['a', '5'], ['long name', '1,000']]) == [
        'name        rate', 'a              5', 'long name  1,000']


def the_table_shows_both_starts_or_why_there_are_none():
    lines = table.render([row(), row(name='B', starts_ten_instead='no caps')], 100000)
    assert lines[0].endswith('behind 100,000 of a full one') and lines[1].split()[-2:] == ['1.50', '-'], lines
    assert lines[2].endswith('no caps'), lines


def settings_of_the_starts_are_named_where_they_differ():
    for same in (None, 'fast'):
        assert 'A: fast. Notes.' in table.render([row(start_settings=same)], 1)
    assert 'A: fast; starts: slow. Notes.' in table.render([row(start_settings='slow')], 1)


def a_drain_of_the_wrong_length_and_a_passed_limit_are_told():
    assert table.remarks([row()], False) == []
    assert '--jobs a=N' in table.remarks([row(seconds=1)], False)[0]
    assert table.remarks([row(seconds=1)], True) == []
    assert 'limit is 1' in table.remarks([row(full_tenant_running=4)], True)[0]


def the_goal_is_that_of_weir_against_graphile_worker():
    rival = row(key='graphile-worker-batched', name='G', ratio=0.8)
    assert table.goal([rival], False) == ['goal: weir at least 1.1 of G: 1.250: yes']
    assert table.goal([{**rival, 'ratio': 1.0}], False)[0].endswith('NO')
    assert table.goal([rival], True)[0].endswith('(quick)')
    assert table.goal([row()], False) == []


def the_catalogue_is_whole():
    assert len({peer.key for peer in PEERS}) == len(PEERS)
    for peer in PEERS:
        assert tuple(peer.guarantees) == GUARANTEES and all(peer.guarantees.values()), peer.key
        assert peer.notes and peer.jobs > 0, peer.key
        assert peer.base in BASES and peer.program[0] in ('weir', 'node', 'river', 'python'), peer.key
        if peer.program[0] in ('node', 'python'):
            assert os.path.exists(os.path.join(HERE, *peer.program[:2])), peer.key


def all_versions_are_pinned_and_no_lock_file_names_a_host():
    packages = json.loads(read('node/package.json'))
    wanted = {**packages['dependencies'], **packages['optionalDependencies']}
    locked = json.loads(read('node/package-lock.json'))['packages']
    for name, version in wanted.items():
        assert re.fullmatch(r'\d+\.\d+\.\d+', version) and locked[f'node_modules/{name}']['version'] == version, name
    for name, facts in locked.items():
        assert 'resolved' not in facts and (not name or 'integrity' in facts), name
    for line in read('python/requirements.txt').splitlines():
        assert re.fullmatch(r'[\w.-]+==[\w.]+', line), line
    assert not re.search(r'^replace', read('river/go.mod'), re.MULTILINE)
    for path, version in re.findall(r'^\s*(\S+\.\S+/\S+) (v\S+)', read('river/go.mod'), re.MULTILINE):
        assert f'{path} {version} h1:' in read('river/go.sum'), path


if __name__ == '__main__':
    sys.exit(run_tests(globals()))
