#!/usr/bin/env python3
"""Wakes on real nodes: of a parked execution, of one in its node, of a wait for the next attempt, and around a killed node.

usage: wakes_test.py BINARY [--postgres] [TEST ...]
"""

import concurrent.futures
import json
import signal
import subprocess
import sys

from harness import assert_error, run_tests
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
KILL_POINTS = {'before_step_report': (1,), 'before_record': (1, 2), 'after_record': (1, 2)}


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _scene(weir):
    weir.make_store()
    flaky = 'test -e made && exit 0; touch made; exit 3'
    tell = {'needs': ['nap'], 'exec': ['printf', '%s', '${.steps.nap.output.woken}']}
    definitions = {
        'pause': {'nap': {'sleep': '3d'}, 'tell': tell},
        'held': {'nap': {'sleep': '3d', 'hold_slot': True}, 'tell': tell},
        'flaky': {'charge': {'exec': ['sh', '-c', f'cd {weir.folder} && {flaky}'],
                             'retry': {'attempts': 3, 'backoff': '3d', 'max': '3d'}}},
        'ask': {'ask': {'signal': {'name': 'approved', 'timeout': '3d', 'default': {'by': 'clock'}}}}}
    for name, steps in definitions.items():
        weir.write(f'{name}.json', json.dumps({'name': name, 'steps': steps}))
        weir.good('workflow', 'apply', f'{name}.json', '-q')


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _await(weir, id, status):
    return wait_for(lambda: f'{status}: {weir.show(id)}',
                    lambda: weir.show(id) if weir.show(id)['status'] == status else None, pause=SHORT)


def _output(shown, step):
    return [row['output'] for row in shown['steps'] if row['step'] == step]


def _acts(shown):
    return [(event['actor'] is not None, event['reason']) for event in shown['events'] if event['event'] == 'wake']


def a_parked_sleep_is_finished_early(weir):
    _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'pause')
    _await(weir, id, 'WAITING')
    assert_error(weir.run('wake', id, '--waiting-for', 'retry'), 4, 'illegal_state',
                 'none of its steps has a wait of this kind')
    weir.good('wake', id, '--waiting-for', 'sleep', '--reason', 'the customer called', '-q')
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _output(shown, 'nap') == [{'woken': True}], shown
    assert _output(shown, 'tell') == [True] and _acts(shown) == [(True, 'the customer called')], shown
    (sent,) = shown['signals']
    assert (sent['name'], sent['step']) == ('wake:nap', 'nap'), sent
    assert_error(weir.run('wake', id), 4, 'illegal_state', 'it has ended')
    (row,) = [row for row in weir.items('audit') if row['act'] == 'wake']
    assert (row['subject'], row['reason'], row['affected']) == (id, 'the customer called', 1), row


def a_sleep_in_its_node_is_finished_early(weir):
    _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'held')
    wait_for('the wait', lambda: [step['status'] for step in weir.show(id)['steps']] == ['WAITING'], pause=SHORT)
    weir.good('wake', id, '-q')
    shown = weir.ended(id)
    assert _output(shown, 'nap') == [{'woken': True}] and 'park' not in [event['event'] for event in shown['events']], shown


def the_next_attempt_begins_now(weir):
    _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'flaky')
    assert _await(weir, id, 'WAITING')['waiting_for'] == 'retry'
    dry = weir.good('wake', '--where', 'waiting_for=retry', '--dry-run', '--json').json()
    assert (dry['matched'], dry['refused']) == (1, 0), dry
    done = weir.good('wake', '--where', 'waiting_for=retry workspace=tiny', '--expect', '1', '--json').json()
    assert (done['act'], done['changed']) == ('wake', 1), done
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and [step['attempt'] for step in shown['steps']] == [2], shown
    assert [row['step'] for row in shown['signals']] == ['charge'], shown


def a_wait_for_a_signal_needs_its_kind(weir):
    _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'ask')
    _await(weir, id, 'WAITING')
    assert_error(weir.run('wake', id), 4, 'illegal_state', 'a wake does not bring them')
    assert_error(weir.run('signal', id, 'wake:ask', '--data', '1'), 2, 'invalid_argument', 'its steps wait for: approved')
    weir.good('wake', id, '--waiting-for', 'signal', '-q')
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _output(shown, 'ask') == [{'by': 'clock'}], shown


def of_many_callers_one_ends_the_wait(weir):
    _scene(weir)
    id = weir.enqueue('-w', 'tiny', 'pause')
    node = _node(weir)
    _await(weir, id, 'WAITING')
    node.send_signal(signal.SIGTERM)
    node.wait()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: weir.run('wake', id), range(8)))
    assert sorted(result.code for result in results) == [0] + [4] * 7, results
    assert all('woken already' in result.err for result in results if result.code), results
    _node(weir)
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and len(shown['signals']) == 1 and len(_acts(shown)) == 1, shown


def a_node_that_is_killed_around_the_wake_loses_nothing(weir):
    _scene(weir)
    for point, passes in KILL_POINTS.items():
        for count in passes:
            node = _node(weir)
            id = weir.enqueue('-w', 'tiny', 'pause')
            _await(weir, id, 'WAITING')
            node.send_signal(signal.SIGTERM)
            node.wait()
            weir.good('wake', id, '-q')
            node = _node(weir, WEIR_FAILPOINT=f'{point}:kill:{count}')
            assert node.wait(timeout=60) == -signal.SIGKILL, (point, count)
            other = _node(weir)
            shown = weir.ended(id)
            place = (point, count, shown)
            assert shown['status'] == 'COMPLETED' and _output(shown, 'nap') == [{'woken': True}], place
            assert [row['step'] for row in shown['signals']] == ['nap'], place
            other.send_signal(signal.SIGTERM)
            other.wait()
    assert weir.good('store', 'check', '--json').json()['problems'] == []


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
