#!/usr/bin/env python3
"""Executions that start others, on real nodes: with one slot, around deaths of nodes, and at the end of a parent.

usage: children_test.py BINARY [--postgres] [TEST ...]
"""

import json
import os
import re
import signal
import subprocess
import sys

from harness import assert_error, run_tests
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
# A node registers with some commits. The plan, the park, the start of the child, its end and the wake follow.
KILL_POINTS = {'before_children': (1, 2, 3), 'after_children': (1, 2), 'before_park': (1,), 'after_park': (1,),
               'before_record': (1, 2, 3, 4, 5), 'after_record': (1, 2, 3, 4), 'before_commit': (3, 5, 7, 9, 11),
               'after_commit': (3, 5, 7, 9)}


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _start(**fields):
    return {'go': {'start': {'workflow': 'child', **fields}},
            'tell': {'needs': ['go'], 'exec': ['printf', '%s', '${.steps.go.output | tojson}']}}


def _scene(weir):
    """Workspace tiny has one slot. `child` prints its name, fails for `bad`, and waits for a signal when it is told to."""
    weir.make_store()
    each = {'for_each': '${.input.names}', 'params': {'name': '${.item}', 'place': '${.index}'}}
    definitions = {
        'child': {'wait': {'signal': 'go', 'when': '${.input.waits == true}'},
                  'say': {'needs': ['wait'],
                          'exec': ['sh', '-c', 'test "$1" != bad && printf %s "$1"', 'sh', '${.input.name}']}},
        'one': _start(params={'name': '${.input.name}', 'waits': '${.input.waits}'}),
        'fan': _start(**each),
        'slow': _start(**each, max_parallel=2),
        'race': _start(for_each='${.input.names}', wait='any',
                       params={'name': '${.item | ascii_downcase}', 'waits': '${.index > 0}'}),
        'two': _start(**each, wait=2),
        'loose': _start(for_each='${.input.names}', wait='none', on_parent_end='leave',
                        params={'name': '${.item}', 'waits': True}),
        'strict': _start(for_each='${.input.names}', params={'name': '${.item}', 'waits': True}),
        'keyed': _start(params={'name': '${.input.name}'}, key='child-${.input.name}'),
        'lost': {'go': {'start': 'nowhere'}},
        'apart': _start(params={'name': '${.input.name}'}, workspace='acme'),
        'hasty': {'go': {'start': {'workflow': 'child', 'params': {'name': 'x', 'waits': True}}, 'timeout': '1500ms'}},
        'late': {'go': {'start': {'workflow': 'child', 'params': {'name': 'x'}}},
                 'end': {'needs': ['go'], 'exec': ['false']}},
        'endless': {'go': {'start': 'endless'}}}
    for name, steps in definitions.items():
        weir.write(f'{name}.json', json.dumps({'name': name, 'steps': steps}))
        weir.good('workflow', 'apply', f'{name}.json', '-q')


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _await(weir, id, status):
    return wait_for(lambda: f'{status}: {weir.show(id)}',
                    lambda: weir.show(id) if weir.show(id)['status'] == status else None, pause=SHORT)


def _run(weir, workflow, **params):
    return weir.enqueue('-w', 'tiny', workflow, '-p', json.dumps(params))


def _told(shown):
    (text,) = [row['output'] for row in shown['steps'] if row['step'] == 'tell']
    return text if isinstance(text, (dict, list)) else json.loads(text)


def _children(weir, status=None):
    words = ('-s', status) if status else ()
    return [item['id'] for item in weir.items('list', '-w', 'tiny', '--where', 'workflow=child', '--limit', '100', *words)]


def _no_problems(weir):
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def a_parent_with_one_slot_waits_without_it(weir):
    _scene(weir)
    _node(weir)
    id = _run(weir, 'one', name='ada')
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED', shown
    told = _told(shown)
    assert (told['status'], told['output']) == ('COMPLETED', 'ada'), told
    assert [told['id']] == _children(weir)
    assert [event['event'] for event in shown['events']].count('park') == 1 and shown['signals'] == [], shown
    apart = _told(weir.ended(_run(weir, 'apart', name='bob')))
    assert (apart['output'], weir.show(apart['id'])['workspace']) == ('bob', 'acme'), apart
    _no_problems(weir)


def a_parent_waits_as_long_as_its_child(weir):
    _scene(weir)
    _node(weir)
    id = _run(weir, 'one', name='ada', waits=True)
    shown = _await(weir, id, 'WAITING')
    assert shown['waiting_for'] == 'child' and shown['due_at'] is None, shown
    (child,) = wait_for('the child to wait', lambda: _children(weir, 'waiting'), pause=SHORT)
    shown = weir.show(id)
    why = weir.good('why', id).out
    assert f'0 of 1 have ended; the first open one is {child}: a step of it waits for a signal' in why, why
    assert shown['children'] == [{'step': 'go', 'workflow': 'child', 'count': 1, 'not_started': 0, 'open': 1,
                                  'completed': 0, 'not_completed': 0, 'adopted': 0, 'leaves': False}], shown
    assert shown['children'][0]['leaves'] is False
    assert [step['signal'] for step in shown['steps']] == [None] and shown['parent'] is None, shown
    assert weir.show(child)['parent'] == {'id': id, 'step': 'go', 'index': 0}
    assert f'parent           {id} (step go, child 0)' in weir.good('show', child).out
    assert [item['id'] for item in weir.items('list', '--where', f'parent={id}')] == [child]
    assert weir.items('list', '--where', f'parent={child}') == []
    refused = weir.run('signal', id, '$go')
    assert refused.code != 0, refused
    weir.good('signal', child, 'go', '-q')
    assert _told(weir.ended(id))['output'] == 'ada'
    _no_problems(weir)


def a_key_joins_the_execution_of_a_program(weir):
    _scene(weir)
    params = json.dumps({'waits': True, 'name': 'ada'})
    child = weir.enqueue('-w', 'tiny', 'child', '-p', params, '--idempotency-key', 'child-ada')
    _node(weir)
    _await(weir, child, 'WAITING')
    parents = [_run(weir, 'keyed', name='ada') for _ in range(2)]
    for id in parents:
        _await(weir, id, 'WAITING')
        wait_for('the child to be adopted', lambda id=id: weir.items('list', '--where', f'parent={id}'), pause=SHORT)
    assert weir.show(parents[1])['children'][0]['adopted'] == 1
    (row,) = [line for line in weir.good('show', parents[1]).out.splitlines() if 'ADOPTED' in line]
    assert row.endswith('ADOPTED'), row
    weir.good('cancel', parents[0], '-q')
    assert weir.show(child)['parent'] is None and _children(weir) == [child]
    weir.good('signal', child, 'go', '-q')
    told = _told(weir.ended(parents[1]))
    assert (told['id'], told['status'], told['output']) == (child, 'COMPLETED', 'ada'), told
    later = _told(weir.ended(_run(weir, 'keyed', name='ada')))
    assert later == told and _children(weir) == [child], later
    own = _told(weir.ended(_run(weir, 'keyed', name='bob')))
    keyed = weir.items('list', '--where', 'workflow=keyed')
    assert [weir.show(row['id'])['children'][0]['adopted'] for row in keyed] == [0, 1, 1, 1]
    assert own['output'] == 'bob' and weir.show(own['id'])['idempotency_key'] == 'child-bob', own
    _no_problems(weir)


def a_child_that_fails_fails_its_parent(weir):
    _scene(weir)
    _node(weir)
    shown = weir.ended(_run(weir, 'one', name='bad'))
    (child,) = _children(weir)
    assert shown['status'] == 'FAILED' and shown['error_code'] == 'child_failed' and child in shown['error'], shown
    refused = weir.ended(_run(weir, 'lost'))
    assert refused['error_code'] == 'child_refused' and 'nowhere' in refused['error'], refused
    deep = weir.ended(_run(weir, 'endless'))
    assert deep['error_code'] == 'child_failed', deep
    assert len(weir.items('list', '-w', 'tiny', '--where', 'workflow=endless', '--limit', '100')) == 17
    _no_problems(weir)


def a_timeout_ends_the_wait_and_the_children(weir):
    _scene(weir)
    _node(weir)
    shown = weir.ended(_run(weir, 'hasty'))
    assert shown['error_code'] == 'children_timeout', shown
    wait_for('the child to be cancelled', lambda: _children(weir, 'cancelled'), pause=SHORT)
    _no_problems(weir)


def a_cancel_of_the_parent_reaches_all_children(weir):
    _scene(weir)
    _node(weir)
    id = _run(weir, 'strict', names=['a', 'b', 'c'])
    wait_for('all to wait', lambda: len(_children(weir, 'waiting')) == 3, pause=SHORT)
    weir.good('cancel', id, '-q')
    wait_for('all to be cancelled', lambda: len(_children(weir, 'cancelled')) == 3, pause=SHORT)
    assert weir.show(id)['status'] == 'CANCELLED'
    _no_problems(weir)


def a_cancelled_waiting_parent_cancels_its_children_at_once(weir):
    """The act is the only event: no poll and no other end comes within the time, and the duty looks once a minute."""
    _scene(weir)
    weir.write('weir.yaml', 'dispatch.poll_interval: 10m\n')
    _node(weir)
    for purges in (False, True):
        id = _run(weir, 'strict', names=['a', 'b', 'c'])
        wait_for('all to wait', lambda: len(_children(weir, 'waiting')) == 3, pause=SHORT)
        _await(weir, id, 'WAITING')
        before = len(_children(weir, 'cancelled'))
        weir.good('cancel', id, '-q')
        if purges:
            weir.good('purge', id, '-q')
        wait_for('all to be cancelled', lambda: len(_children(weir, 'cancelled')) == before + 3, seconds=20, pause=SHORT)
    _no_problems(weir)


def children_that_are_left_go_on(weir):
    _scene(weir)
    _node(weir)
    shown = weir.ended(_run(weir, 'loose', names=['a', 'b']))
    told = _told(shown)
    assert [row['status'] for row in told] == ['OPEN', 'OPEN'], told
    wait_for('both to wait', lambda: len(_children(weir, 'waiting')) == 2, pause=SHORT)
    ids = _children(weir, 'waiting')
    assert sorted(ids) == sorted(row['id'] for row in told)
    weir.good('purge', shown['id'], '-q', '--yes')
    for id in ids:
        weir.good('signal', id, 'go', '-q')
        assert weir.ended(id)['status'] == 'COMPLETED'
    _no_problems(weir)


def a_list_starts_a_child_for_each_item(weir):
    _scene(weir)
    _node(weir)
    names = [f'n{i}' for i in range(20)]
    told = _told(weir.ended(_run(weir, 'fan', names=names)))
    assert [row['output'] for row in told] == names, told
    assert weir.ended(_run(weir, 'fan', names=[]))['status'] == 'COMPLETED'
    told = _told(weir.ended(_run(weir, 'slow', names=names)))
    assert [row['output'] for row in told] == names, told
    wrong = weir.ended(_run(weir, 'fan', names='x'))
    assert wrong['error_code'] == 'children_invalid', wrong
    _no_problems(weir)


def a_wait_ends_with_enough_children(weir):
    _scene(weir)
    _node(weir)
    told = _told(weir.ended(_run(weir, 'race', names=['Ada', 'b', 'c'])))
    assert told[0]['output'] == 'ada' and [row['status'] for row in told] == ['COMPLETED', 'OPEN', 'OPEN'], told
    told = _told(weir.ended(_run(weir, 'two', names=['a', 'bad', 'c'])))
    assert [row['status'] for row in told if row['output'] in ('a', 'c')] == ['COMPLETED', 'COMPLETED'], told
    failed = weir.ended(_run(weir, 'two', names=['a', 'bad', 'bad']))
    assert failed['error_code'] == 'child_failed', failed
    few = weir.ended(_run(weir, 'two', names=['a']))
    assert few['error_code'] == 'children_too_few', few
    _no_problems(weir)


def a_node_that_is_killed_starts_no_child_twice(weir):
    _scene(weir)
    begun = 0
    for point, passes in KILL_POINTS.items():
        for count in passes:
            node = _node(weir, WEIR_FAILPOINT=f'{point}:kill:{count}')
            id = _run(weir, 'fan', names=['a', 'b'])
            begun += 2
            assert node.wait(timeout=60) == -signal.SIGKILL, (point, count)
            other = _node(weir)
            shown = weir.ended(id)
            place = (point, count, shown)
            assert shown['status'] == 'COMPLETED' and [row['output'] for row in _told(shown)] == ['a', 'b'], place
            assert len(_children(weir)) == begun, place
            other.send_signal(signal.SIGTERM)
            other.wait()
    _no_problems(weir)


def a_retry_starts_children_anew_unless_they_are_kept(weir):
    _scene(weir)
    _node(weir)
    failed = weir.ended(_run(weir, 'late'))
    assert failed['error_code'] == 'exit_1' and len(_children(weir)) == 1, failed
    kept = weir.ended(weir.good('retry', failed['id'], '--keep-finished').out.strip())
    assert kept['error_code'] == 'exit_1' and len(_children(weir)) == 1 and kept['children'] == [], kept
    anew = weir.ended(weir.good('retry', kept['id']).out.strip())
    assert anew['error_code'] == 'exit_1' and len(_children(weir)) == 2, anew
    _no_problems(weir)


def _own_steps(weir, name, steps, **sections):
    weir.write(f'{name}.json', json.dumps({'name': name, 'steps': steps, **sections}))
    weir.good('workflow', 'apply', f'{name}.json', '-q')


def _states(shown):
    return {row['step']: row['status'] for row in shown['steps']}


def _output(shown, step):
    return [row['output'] for row in shown['steps'] if row['step'] == step]


def a_wake_ends_a_wait_that_has_a_timeout(weir):
    _scene(weir)
    waiting = {'start': {'workflow': 'child', 'params': {'name': 'x', 'waits': True}}}
    _own_steps(weir, 'patient', {'go': {**waiting, 'timeout': '3d', 'continue_on_error': True},
                                 'tell': {'needs': ['go'], 'exec': ['echo', '${.steps.go.error.code}']}})
    _own_steps(weir, 'steady', {'go': waiting})
    _node(weir)
    id = _run(weir, 'patient')
    assert _await(weir, id, 'WAITING')['waiting_for'] == 'child'
    assert [item['id'] for item in weir.items('list', '--where', 'waiting_for=child')] == [id]
    assert_error(weir.run('wake', id), 4, 'illegal_state', '')
    assert_error(weir.run('wake', id, '--waiting-for', 'signal'), 4, 'illegal_state', 'none of its steps has a wait')
    weir.good('wake', id, '--waiting-for', 'child', '-q')
    shown = weir.ended(id)
    assert (shown['status'], _output(shown, 'tell')) == ('COMPLETED', ['children_timeout']), shown
    wait_for('the child to be cancelled', lambda: _children(weir, 'cancelled'), pause=SHORT)
    id = _run(weir, 'steady')
    _await(weir, id, 'WAITING')
    assert_error(weir.run('wake', id, '--waiting-for', 'child'), 4, 'illegal_state', 'wait without a timeout')
    _no_problems(weir)


def a_failed_child_may_be_tolerated(weir):
    _scene(weir)
    _own_steps(weir, 'soft', {'go': {'start': {'workflow': 'child', 'params': {'name': 'bad'}}, 'continue_on_error': True},
                              'tell': {'needs': ['go'], 'exec': ['echo', '${.steps.go.error.code}']}})
    _node(weir)
    shown = weir.ended(_run(weir, 'soft'))
    assert (shown['status'], _output(shown, 'tell')) == ('COMPLETED', ['child_failed']), shown
    assert _states(shown) == {'go': 'FAILED', 'tell': 'COMPLETED'}, shown
    _no_problems(weir)


def an_undo_reads_the_children_and_finally_starts_some(weir):
    _scene(weir)
    child = {'workflow': 'child', 'params': {'name': '${.failure.code}'}}
    _own_steps(weir, 'saga', {'go': {**_start(params={'name': 'ada'})['go'],
                                     'undo': {'exec': ['echo', 'undone: ${.steps.go.output.output}']}},
                              'end': {'needs': ['go'], 'exec': ['false']}},
               on_failure={'help': {'start': child}},
               **{'finally': {'last': {'start': child},
                              'tell': {'needs': ['last'], 'exec': ['echo', '${.steps.last.output.output}']}}})
    _node(weir)
    shown = weir.ended(_run(weir, 'saga'))
    assert (shown['status'], shown['error_code'], _output(shown, 'tell')) == ('FAILED', 'exit_1', ['exit_1']), shown
    assert _output(shown, 'go.undo') == ['undone: ada'], shown
    assert len(_children(weir, 'completed')) == 3, shown
    assert {row['step'] for row in shown['children']} == {'go', 'help', 'last'}, shown
    _no_problems(weir)


def a_cancel_while_the_parent_undoes_reaches_its_children(weir):
    _scene(weir)
    fifo = weir.path('undoing')
    os.mkfifo(fifo)
    _own_steps(weir, 'saga', {'go': {'start': {'workflow': 'child', 'wait': 'any', 'for_each': '${["x", "y"]}',
                                               'params': {'name': '${.item}', 'waits': '${.index > 0}'}},
                                     'undo': {'exec': ['sh', '-c', 'echo here > "$0"; sleep 600', fifo]}},
                              'end': {'needs': ['go'], 'exec': ['false']}},
               **{'finally': {'last': {'start': {'workflow': 'child', 'params': {'name': 'z'}}}}})
    _node(weir)
    id = _run(weir, 'saga')
    with open(fifo) as file:
        assert file.read() == 'here\n'
    wait_for('the open child', lambda: weir.show(id)['children'][0]['open'] == 1, pause=SHORT)
    weir.good('cancel', id, '-q')
    shown = weir.ended(id)
    assert shown['status'] == 'CANCELLED' and [row['step'] for row in shown['children']] == ['go'], shown
    wait_for('the child to be cancelled', lambda: len(_children(weir, 'cancelled')) == 1, pause=SHORT)
    assert len(_children(weir)) == 2
    _no_problems(weir)


def the_first_open_child_is_named(weir):
    _scene(weir)
    _own_steps(weir, 'mixed', _start(for_each='${.input.names}', params={'name': '${.item}', 'waits': '${.index > 0}'}))
    _node(weir)
    id = _run(weir, 'mixed', names=['a', 'b', 'c'])
    wait_for('two to wait', lambda: len(_children(weir, 'waiting')) == 2, pause=SHORT)
    wait_for('the first end', lambda: weir.show(id)['children'][0]['completed'] == 1, pause=SHORT)
    first, second = sorted(_children(weir, 'waiting'), key=lambda child: weir.show(child)['parent']['index'])
    why = weir.good('why', id).out
    assert f'1 of 3 have ended; the first open one is {first}: a step of it waits for a signal' in why, why
    weir.good('signal', first, 'go', '-q')
    wait_for('the second end', lambda: weir.show(id)['children'][0]['completed'] == 2, pause=SHORT)
    why = weir.good('why', id).out
    assert f'2 of 3 have ended; the first open one is {second}: ' in why, why
    weir.good('signal', second, 'go', '-q')
    assert weir.ended(id)['status'] == 'COMPLETED'
    _no_problems(weir)


def two_nodes_share_parents_and_children(weir):
    _scene(weir)
    _node(weir, WEIR_NODE_NAME='one')
    _node(weir, WEIR_NODE_NAME='two')
    names = [f'n{i}' for i in range(10)]
    ids = [weir.enqueue('-w', 'acme', 'fan', '-p', json.dumps({'names': names})) for _ in range(10)]
    for id in ids:
        assert [row['output'] for row in _told(weir.ended(id))] == names
    _no_problems(weir)


def the_example_of_the_document_runs(weir):
    _scene(weir)
    _node(weir)
    with open(os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'definitions.md')) as file:
        (text,) = re.findall(r'```yaml\n(name: resize-all\n.*?)```', file.read(), re.DOTALL)
    weir.write('resize-all.yaml', text)
    steps = {'say': {'exec': ['printf', '%s', '${.input.number}: ${.input.file}']}}
    weir.write('resize.json', json.dumps({'name': 'resize', 'steps': steps}))
    for name in ('resize-all.yaml', 'resize.json'):
        weir.good('workflow', 'apply', name, '-q')
    shown = weir.ended(_run(weir, 'resize-all', files=['a.png', 'b.png']))
    (told,) = [row['output'] for row in shown['steps'] if row['step'] == 'tell']
    assert told.strip() == '2 files, the first one is 1: a.png', told


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
