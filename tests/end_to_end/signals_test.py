#!/usr/bin/env python3
"""Signals to executions on real nodes: before the wait, out of a park, at a timeout, and around the death of a node.

usage: signals_test.py BINARY [--postgres] [TEST ...]
"""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys

from harness import run_tests
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
MANY = 200
# A node registers with some commits. The end of the first step, the start and the end of the second one are some records.
# The signal itself ends the first step of a parked execution, so only one with a slot surely has two reports of ends.
KILL_POINTS = {'before_step_report': (1, 2), 'before_record': (1, 2, 3), 'after_record': (1, 2), 'before_commit': (3, 5, 7),
               'after_commit': (3, 5)}


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _scene(weir):
    """Workspace tiny has one slot. `order` waits for an approval and prints who gave it."""
    weir.make_store()
    definitions = {
        'order': {'ask': {'signal': 'approved'},
                  'tell': {'needs': ['ask'], 'exec': ['printf', '%s', '${.steps.ask.output.by}']}},
        'hasty': {'ask': {'signal': {'name': 'approved', 'timeout': '1500ms'}}},
        'meek': {'ask': {'signal': {'name': 'approved', 'timeout': '1500ms', 'default': {'by': 'clock'}}},
                 'tell': {'needs': ['ask'], 'exec': ['printf', '%s', '${.steps.ask.output.by}']}},
        'held': {'ask': {'signal': 'approved', 'hold_slot': True},
                 'tell': {'needs': ['ask'], 'exec': ['printf', '%s', '${.steps.ask.output.by}']}}}
    for name, steps in definitions.items():
        weir.write(f'{name}.json', json.dumps({'name': name, 'steps': steps}))
        weir.good('workflow', 'apply', f'{name}.json', '-q')


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _await(weir, id, status):
    return wait_for(lambda: f'{status}: {weir.show(id)}',
                    lambda: weir.show(id) if weir.show(id)['status'] == status else None, pause=SHORT)


def _approve(weir, id, by, *words):
    return weir.good('signal', id, 'approved', '--data', json.dumps({'by': by}), '--json', *words).json()


def _output(shown, step='tell'):
    return [row['output'] for row in shown['steps'] if row['step'] == step]


def _consumed(shown):
    return [(row['seq'], row['step']) for row in shown['signals']]


def an_execution_that_waits_for_a_signal_uses_no_slot(weir):
    _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'order')
    shown = _await(weir, id, 'WAITING')
    assert shown['waiting_for'] == 'signal' and shown['due_at'] is None, shown
    assert weir.ended(weir.enqueue('-w', 'tiny', 'hello'))['status'] == 'COMPLETED'
    assert [item['id'] for item in weir.items('list', '--where', 'waiting_for=signal')] == [id]
    why = weir.good('why', id)
    assert 'waits for the signal "approved" since ' in why.out, why
    assert f'now: weir signal {id} approved --data JSON\n' in why.err, why
    sent = _approve(weir, id, 'eve', '--key', 'mail-7')
    assert (sent['signal'], sent['id'], sent['seq'], sent['duplicate']) == ('approved', id, 1, False), sent
    assert _approve(weir, id, 'eve', '--key', 'mail-7')['duplicate']
    reused = weir.run('signal', id, 'approved', '--data', '{"by":"bob"}', '--key', 'mail-7')
    assert reused.code == 4 and 'has other data' in reused.err, reused
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _output(shown) == ['eve'] and _consumed(shown) == [(1, 'ask')], shown
    text = weir.good('show', id).out
    assert 'approved' in text and 'eve' in text, text
    refused = weir.run('signal', id, 'approved')
    assert refused.code == 4 and 'has ended' in refused.err, refused


def a_signal_ends_the_wait_while_no_node_runs(weir):
    """The next node finds the step ended, begins the next one, and logs the end of both."""
    _scene(weir)
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'order')
    _await(weir, id, 'WAITING')
    node.send_signal(signal.SIGTERM)
    node.wait()
    _approve(weir, id, 'eve')
    shown = weir.show(id)
    assert shown['status'] == 'PENDING' and _consumed(shown) == [(1, 'ask')], shown
    (step,) = shown['steps']
    assert (step['status'], step['output'], step['node']) == ('COMPLETED', {'by': 'eve'}, None), shown
    assert [event['event'] for event in shown['events']][-4:] == ['park', 'signal', 'wake', 'step_end'], shown
    with open(weir.path('log'), 'w') as log:
        weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'debug'}, stdout=log, stderr=log)
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _output(shown) == ['eve'] and _consumed(shown) == [(1, 'ask')], shown
    events = [(event['event'], event['reason']) for event in shown['events']]
    behind = events[events.index(('step_end', 'ask')) + 1:]  # the record of the start may have a later time than the step
    assert behind[0] == ('claim', None) and behind[-2:] == [('step_end', 'tell'), ('complete', None)], events
    assert sorted(behind[1:-2], key=str) == [('dispatch', None), ('step_start', 'tell')], events

    def ended_steps():
        with open(weir.path('log')) as log:
            lines = [json.loads(line) for line in log if '"step.ended"' in line and line.endswith('\n')]
        return [(line['step'], line['reason']) for line in lines if line['execution_id'] == id]
    wait_for('the log of both ends', lambda: ended_steps() == [('ask', 'COMPLETED'), ('tell', 'COMPLETED')], pause=SHORT)


def a_signal_before_the_wait_is_kept(weir):
    _scene(weir)
    id = weir.enqueue('-w', 'tiny', 'order')
    _approve(weir, id, 'ada')
    _node(weir)
    shown = weir.ended(id)
    assert _output(shown) == ['ada'] and _consumed(shown) == [(1, 'ask')], shown
    assert 'park' not in [event['event'] for event in shown['events']], shown


def a_node_that_holds_it_hears_the_signal(weir):
    _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'held')
    wait_for('the wait', lambda: [step['status'] for step in weir.show(id)['steps']] == ['WAITING'], pause=SHORT)
    _approve(weir, id, 'eve')
    shown = weir.ended(id)
    assert _output(shown) == ['eve'] and 'park' not in [event['event'] for event in shown['events']], shown


def a_timeout_fails_the_step_or_gives_the_default(weir):
    _scene(weir)
    _node(weir)
    failed = weir.ended(weir.enqueue('-w', 'tiny', 'hasty'))
    assert failed['status'] == 'FAILED' and failed['error_code'] == 'signal_timeout', failed
    assert '"approved"' in failed['error'], failed
    done = weir.ended(weir.enqueue('-w', 'tiny', 'meek'))
    assert done['status'] == 'COMPLETED' and _output(done) == ['clock'] and done['signals'] == [], done


def a_node_that_is_killed_around_the_signal_loses_nothing(weir):
    _scene(weir)
    for point, passes in KILL_POINTS.items():
        for count in passes:
            node = _node(weir, WEIR_FAILPOINT=f'{point}:kill:{count}')
            id = weir.enqueue('-w', 'tiny', 'held' if (point, count) == ('before_step_report', 2) else 'order')
            weir.good('signal', id, 'approved', '--data', '{"by":"eve"}', '-q')
            weir.run('signal', id, 'approved', '--data', '{"by":"bob"}', '-q')  # it may have ended
            assert node.wait(timeout=60) == -signal.SIGKILL, (point, count)
            other = _node(weir)
            shown = weir.ended(id)
            place = (point, count, shown)
            assert shown['status'] == 'COMPLETED' and _output(shown) == ['eve'], place
            assert _consumed(shown) in ([(1, 'ask')], [(1, 'ask'), (2, None)]), place
            other.send_signal(signal.SIGTERM)
            other.wait()
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def each_of_many_signals_over_two_nodes_is_consumed_once(weir):
    _scene(weir)
    _node(weir, WEIR_NODE_NAME='one')
    _node(weir, WEIR_NODE_NAME='two')
    line = json.dumps({'workspace': 'acme', 'workflow': 'order'}) + '\n'
    weir.good('enqueue', '-', '-q', stdin=line * MANY)
    ids = [item['id'] for item in weir.items('list', '-w', 'acme', '--limit', str(MANY))]
    assert len(ids) == MANY
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # some come before the park, some after it
        list(pool.map(lambda id: _approve(weir, id, id), ids))
    count = ('list', '-w', 'acme', '-s', 'completed', '--count', '--json')
    wait_for('all to end', lambda: weir.good(*count).json()['count'] == MANY)
    for id in ids:
        shown = weir.show(id)
        assert _output(shown) == [id] and _consumed(shown) == [(1, 'ask')], shown
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def the_example_of_the_document_runs(weir):
    _scene(weir)
    _node(weir)
    with open(os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'definitions.md')) as file:
        (text,) = re.findall(r'```yaml\n(name: refund\n.*?)```', file.read(), re.DOTALL)
    weir.write('refund.yaml', text)
    weir.good('workflow', 'apply', 'refund.yaml', '-q')
    id = weir.enqueue('-w', 'tiny', 'refund', '-p', '{"amount": 7, "customer": "Ada"}')
    shown = _await(weir, id, 'WAITING')
    assert shown['waiting_for'] == 'signal' and shown['due_at'] is not None, shown
    why = weir.good('why', id).out
    assert 'waits for the signal "approved" since ' in why and ', until ' in why, why
    _approve(weir, id, 'eve')
    assert _output(weir.ended(id), 'pay') == ['paid, approved by eve']


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
