#!/usr/bin/env python3
"""Executions that wait without a slot: parked by real nodes, woken, cancelled, and through the death of their node.

usage: parked_test.py BINARY [--postgres] [TEST ...]
"""

import json
import os
import signal
import subprocess
import sys
import time

from harness import run_tests
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
SLEEPERS = 2000
STOP_SECONDS = 10  # far below stop.grace; the figure is printed
# The node registers with some commits, and a start, a step and a park are some records.
KILL_POINTS = {'before_commit': (3, 5, 7), 'after_commit': (4, 6, 8), 'before_record': (2, 3, 4), 'after_record': (2, 3, 4)}


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _scene(weir):
    """Workspace tiny has one slot. `nap` sleeps between two programs, which write when they ran."""
    weir.make_store()
    weir.write('nap.json', json.dumps({'name': 'nap', 'steps': {
        'before': {'exec': ['sh', '-c', f'date +%s%N >> {weir.path("before")}']},
        'sleep': {'needs': ['before'], 'sleep': '${.input.for}'},
        'after': {'needs': ['sleep'], 'exec': ['sh', '-c', f'date +%s%N >> {weir.path("after")}']}}}))
    weir.write('hold.json', json.dumps({'name': 'hold', 'steps': {'sleep': {'sleep': '1h', 'hold_slot': True}}}))
    weir.write('sleeper.json', json.dumps({'name': 'sleeper', 'steps': {'sleep': {'sleep': '1h'}}}))
    for name in ('nap', 'hold', 'sleeper'):
        weir.good('workflow', 'apply', f'{name}.json', '-q')


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _await(weir, id, status):
    return wait_for(lambda: f'{status}: {weir.show(id)}',
                    lambda: weir.show(id) if weir.show(id)['status'] == status else None, pause=SHORT)


def _events(shown):
    return [event['event'] for event in shown['events'] if not event['event'].startswith('step_')]


def _times(weir, name):
    """When the program of the step has run, each time."""
    if not os.path.exists(weir.path(name)):
        return []
    with open(weir.path(name)) as file:
        return [int(line) for line in file]


def _nap(weir, duration, workspace='tiny'):
    return weir.enqueue('-w', workspace, 'nap', '-p', json.dumps({'for': duration}))


def a_sleeper_leaves_its_slot_to_the_next_execution(weir):
    _scene(weir)
    _node(weir)
    sleeper = _nap(weir, '1h')
    shown = _await(weir, sleeper, 'WAITING')
    assert shown['waiting_for'] == 'sleep' and shown['node'] is None and shown['due_at'], shown
    assert weir.ended(weir.enqueue('-w', 'tiny', 'hello'))['status'] == 'COMPLETED'
    why = weir.good('why', sleeper).out
    assert 'WAITING' in why and 'a step of it sleeps; it uses no slot meanwhile' in why and '  due  ' in why, why
    assert [item['id'] for item in weir.items('list', '-s', 'waiting')] == [sleeper]
    assert ' 0 pending, 1 waiting\n' in weir.good('top', '--once').out
    usage = weir.items('workspace', 'list')
    assert [(row['waiting'], row['slots_used']) for row in usage if row['name'] == 'tiny'] == [(1, 0)], usage
    weir.good('cancel', sleeper, '--yes', '-q')
    shown = weir.show(sleeper)
    assert shown['status'] == 'CANCELLED', shown
    assert [step['status'] for step in shown['steps'] if step['step'] == 'sleep'] == ['CANCELLED'], shown


def an_execution_that_wakes_goes_on_where_it_was(weir):
    _scene(weir)
    _node(weir)
    shown = weir.ended(_nap(weir, '1500ms'))
    assert shown['status'] == 'COMPLETED' and shown['handovers'] == 0, shown
    assert _events(shown) == ['enqueue', 'claim', 'dispatch', 'park', 'wake', 'claim', 'dispatch', 'complete'], shown
    assert {(step['step'], step['attempt'], step['status']) for step in shown['steps']} == \
        {(name, 1, 'COMPLETED') for name in ('before', 'sleep', 'after')}, shown['steps']
    assert 'claimed again' in weir.good('show', shown['id']).out
    assert [len(_times(weir, name)) for name in ('before', 'after')] == [1, 1]
    assert _times(weir, 'after')[0] - _times(weir, 'before')[0] >= 1_500_000_000


def a_step_that_failed_says_why_it_waits(weir):
    _scene(weir)
    weir.write('charge.json', json.dumps({'name': 'charge', 'steps': {
        'card': {'exec': ['sh', '-c', 'echo bank busy >&2; exit 3'], 'retry': {'attempts': 6, 'backoff': '1h'}}}}))
    weir.good('workflow', 'apply', 'charge.json', '-q')
    _node(weir)
    id = weir.good('enqueue', '-w', 'tiny', 'charge').out.strip()
    _await(weir, id, 'WAITING')
    step, = weir.good('why', id, '--json').json()['unfinished_steps']
    assert [step[name] for name in ('attempt', 'attempts_max', 'error_code')] == [1, 6, 'exit_3'], step
    assert 'bank busy' in step['error'], step
    said = weir.good('why', id).out
    assert 'card, attempt 1 of 6 failed: exit code 3: bank busy; the next begins ' in said, said
    nap = _nap(weir, '1h')
    _await(weir, nap, 'WAITING')
    step, = weir.good('why', nap, '--json').json()['unfinished_steps']
    assert [step[name] for name in ('attempts_max', 'error_code', 'error')] == [None, None, None], step


def hold_slot_keeps_the_slot(weir):
    _scene(weir)
    _node(weir)
    holder = weir.enqueue('-w', 'tiny', 'hold')
    wait_for('the sleep', lambda: [step['status'] for step in weir.show(holder)['steps']] == ['WAITING'], pause=SHORT)
    next = weir.enqueue('-w', 'tiny', 'hello')
    wait_for('the reason', lambda: weir.show(next)['pending_reason'] == 'workspace_at_capacity', pause=SHORT)
    assert weir.show(holder)['status'] == 'DISPATCHED'
    weir.good('cancel', holder, '--yes', '-q')
    assert weir.ended(next)['status'] == 'COMPLETED'


def a_parked_execution_outlives_its_node(weir):
    _scene(weir)
    node = _node(weir)
    id = _nap(weir, '3s')
    _await(weir, id, 'WAITING')
    node.send_signal(signal.SIGKILL)
    node.wait()
    assert weir.show(id)['status'] == 'WAITING'
    _node(weir)
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and shown['handovers'] == 0, shown
    assert [len(_times(weir, name)) for name in ('before', 'after')] == [1, 1]


def a_node_that_is_killed_around_the_park_loses_nothing(weir):
    _scene(weir)
    for point, passes in KILL_POINTS.items():
        for count in passes:
            before = len(_times(weir, 'after'))
            node = _node(weir, WEIR_FAILPOINT=f'{point}:kill:{count}')
            id = _nap(weir, '1100ms')
            assert node.wait(timeout=60) == -signal.SIGKILL, (point, count)
            other = _node(weir)
            shown = weir.ended(id)
            place = (point, count, shown)
            assert shown['status'] == 'COMPLETED', place
            events = _events(shown)
            assert events.count('park') == events.count('wake') <= 1, place
            times = {step['step']: step for step in shown['steps']}
            assert times['after']['started_at'] >= times['sleep']['finished_at'], place
            assert len(_times(weir, 'after')) > before, place
            other.send_signal(signal.SIGTERM)
            other.wait()
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def parked_executions_do_not_delay_a_stop(weir):
    _scene(weir)
    node = weir.spawn('serve', '--node', 'stopped', env={'WEIR_LOG_LEVEL': 'warn'}, stdout=subprocess.DEVNULL)
    line = json.dumps({'workspace': 'acme', 'workflow': 'sleeper'}) + '\n'
    weir.good('enqueue', '-', '-q', stdin=line * SLEEPERS)
    wait_for('all of them to wait', lambda: weir.good('status', '--json').json()['waiting'] == SLEEPERS)
    began = time.monotonic()
    node.send_signal(signal.SIGTERM)
    assert node.wait(timeout=60) == 0
    seconds = time.monotonic() - began
    print(f'# the stop took {seconds:.2f} s', flush=True)
    assert seconds < STOP_SECONDS, seconds
    nodes = [row for row in weir.items('node', 'list', '--all') if row['name'] == 'stopped']
    assert [(row['graceful'], row['holds']) for row in nodes] == [(True, 0)], nodes
    assert weir.good('status', '--json').json()['waiting'] == SLEEPERS
    assert weir.good('store', 'check', '--json').json()['problems'] == []


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
