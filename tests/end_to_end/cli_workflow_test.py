#!/usr/bin/env python3
"""Definitions that are checked and published by the command line.

usage: cli_workflow_test.py BINARY [TEST ...]
"""

import json
import os
import sys

from harness import assert_error, run_tests

NO_SCHEDULES = {'schedules_added': [], 'schedules_changed': [], 'schedules_deleted': []}


def apply_publishes_a_version_for_every_change(weir):
    weir.good('store', 'init', '-q')
    weir.write('w.yaml', 'name: w\nsteps:\n  a:\n    exec: [echo, one]\n')
    assert weir.good('workflow', 'apply', 'w.yaml').out == 'w v1 new\n'
    assert weir.good('workflow', 'apply', 'w.yaml').out == 'w v1 unchanged\n'
    weir.write('w.yaml', 'name: w\nsteps:\n  a:\n    exec: [echo, two]\n')
    assert weir.good('workflow', 'apply', 'w.yaml', '--json').json() == \
        {'name': 'w', 'workspace': None, 'version': 2, 'unchanged': False, **NO_SCHEDULES}
    source = json.dumps({'name': 'fromstdin', 'steps': {'a': {'exec': ['true']}}})
    assert weir.good('workflow', 'apply', '-', stdin=source).out == 'fromstdin v1 new\n'
    assert {row['name']: row['version'] for row in weir.items('workflow', 'list')} == {'w': 2, 'fromstdin': 1}
    versions = weir.items('workflow', 'show', 'w')
    said = [(row['version'], row['definition']['steps']['a']['exec'][1]) for row in versions]
    assert said == [(1, 'one'), (2, 'two')], said
    assert 'echo' in weir.good('workflow', 'show', 'w').out
    assert_error(weir.run('workflow', 'show', 'v'), 3, 'workflow_not_found')


def several_files_are_checked_before_the_first_is_published(weir):
    weir.good('store', 'init', '-q')
    for name in ('one', 'two'):
        weir.write(f'{name}.yaml', f'name: {name}\nsteps:\n  a:\n    exec: ["true"]\n')
    weir.write('bad.yaml', 'name: bad\nsteps:\n  a:\n    exek: []\n')
    assert_error(weir.run('workflow', 'apply', 'one.yaml', 'bad.yaml'), 2, 'definition_invalid', 'bad.yaml:4:5', 'exec')
    assert_error(weir.run('workflow', 'apply', 'one.yaml', 'one.yaml'), 2, 'invalid_argument', 'one.yaml and one.yaml')
    assert_error(weir.run('workflow', 'apply', '.'), 2, 'invalid_argument', 'cannot read .', 'folder')
    dry = weir.good('workflow', 'apply', 'one.yaml', 'two.yaml', '--dry-run', '--json').json()
    rehearsed = [{'name': name, 'workspace': None, 'dry_run': True, **NO_SCHEDULES} for name in ('one', 'two')]
    assert dry['items'] == rehearsed, dry
    assert weir.items('workflow', 'list') == []
    assert weir.good('workflow', 'apply', 'one.yaml', 'two.yaml').out == 'one v1 new\ntwo v1 new\n'
    lines = weir.good('workflow', 'apply', 'one.yaml', 'two.yaml', '-o', 'jsonl').out.splitlines()
    assert [json.loads(line)['unchanged'] for line in lines] == [True, True], lines
    weir.write('lost.yaml', 'name: lost\nworkspace: nobody\nsteps:\n  a:\n    exec: [x]\n')
    refused = weir.run('workflow', 'apply', 'two.yaml', 'lost.yaml', 'one.yaml', code=3)
    assert refused.out == 'two v1 unchanged\n', refused
    assert '1 of 3 files are published; lost.yaml is the first that is not' in refused.err, refused


def a_wrong_definition_is_refused_with_its_line(weir):
    weir.write('bad.yaml', 'name: w\nsteps:\n  a:\n    exec: [echo]\n    neds: [b]\n')
    assert_error(weir.run('workflow', 'apply', 'bad.yaml'), 2, 'definition_invalid', 'bad.yaml:5:5', 'needs')
    weir.write('good.yaml', 'name: w\nsteps:\n  a:\n    exec: [echo]\n')
    assert 'is valid' in weir.good('workflow', 'apply', 'good.yaml', '--dry-run').err
    weir.write('outside.yaml', 'name: outside\ntemporal: {}\n')
    assert 'outside, a workflow on Temporal' in weir.good('workflow', 'apply', 'outside.yaml', '--dry-run').err
    assert_error(weir.run('workflow', 'apply', 'none.yaml'), 3, 'not_found', 'none.yaml')
    weir.write('large.yaml', 'name: w\n' + '#' * (1 << 20))
    assert_error(weir.run('workflow', 'apply', 'large.yaml'), 2, 'definition_invalid', 'large.yaml', 'files of their own')
    assert os.path.exists(weir.path('weir.db')) is False


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
