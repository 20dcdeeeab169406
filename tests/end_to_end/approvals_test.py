#!/usr/bin/env python3
"""Approvals on real nodes: who may decide, what follows from a decision, a decision over HTTP, and around a killed node.

usage: approvals_test.py BINARY [--postgres] [TEST ...]
"""

import concurrent.futures
import json
import signal
import subprocess
import sys

from harness import assert_error, run_tests
from http_client import Listener, problem
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
KILL_POINTS = {'before_step_report': (1,), 'before_record': (1, 2), 'after_record': (1, 2)}


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _scene(weir, by=None):
    weir.make_store()
    ask = {'by': by, 'prompt': 'Pay it?', 'timeout': '3d'} if by else {}
    steps = {'ask': {'approve': ask},
             'pay': {'needs': ['ask'], 'when': '${.steps.ask.output.approved}', 'exec': ['true']}}
    weir.write('pay.json', json.dumps({'name': 'pay', 'steps': steps}))
    weir.write('strict.json', json.dumps({'name': 'strict', 'steps': {'ask': {'approve': {'on_reject': 'fail'}}}}))
    for name in ('pay', 'strict'):
        weir.good('workflow', 'apply', f'{name}.json', '-q')


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _waiting(weir, workflow):
    id = weir.enqueue('-w', 'tiny', workflow)
    wait_for(lambda: f'WAITING: {weir.show(id)}', lambda: weir.show(id)['status'] == 'WAITING', pause=SHORT)
    return id


def _me(weir):
    return weir.items('audit', '--limit', '1')[0]['actor']


def _steps(shown):
    return {row['step']: (row['status'], row['output']) for row in shown['steps']}


def an_approval_lets_the_next_step_run(weir):
    _scene(weir)
    _node(weir)
    id = _waiting(weir, 'pay')
    assert [row['id'] for row in weir.items('list', '-s', 'waiting', '--where', 'waiting_for=approval')] == [id]
    why = weir.good('why', id)
    assert 'waits for an approval by anybody who may send signals since ' in why.out
    assert f'now: weir approve {id} ask, or weir reject {id} ask\n' in why.err, why
    assert weir.good('approve', id, '--dry-run', '--json').json()['step'] == 'ask'
    done = weir.good('approve', id, '--comment', 'checked', '--reason', 'ticket 7', '--json').json()
    assert (done['act'], done['step']) == ('approve', 'ask'), done
    shown = weir.ended(id)
    status, output = _steps(shown)['ask']
    assert shown['status'] == 'COMPLETED' and status == 'COMPLETED' and _steps(shown)['pay'][0] == 'COMPLETED', shown
    assert output['approved'] is True and output['comment'] == 'checked' and output['by'] == _me(weir), output
    second = weir.run('reject', id, 'ask')
    assert_error(second, 4, 'illegal_state', 'was approved already, by ' + output['by'])
    (event,) = [event for event in shown['events'] if event['event'] == 'approve']
    assert (event['actor'], event['reason'], event['detail']) == (output['by'], 'ticket 7', 'ask'), event


def dry_runs_refuse_what_the_acts_refuse(weir):
    _scene(weir)
    weir.write('both.json', json.dumps({'name': 'both', 'steps': {'a': {'approve': {}}, 'b': {'approve': {}}}}))
    weir.good('workflow', 'apply', 'both.json', '-q')
    _node(weir)
    id = _waiting(weir, 'both')
    assert_error(weir.run('approve', id, '--dry-run'), 4, 'illegal_state', 'several steps of execution')
    assert weir.good('approve', id, 'a', '--dry-run', '--json').json()['step'] == 'a'
    assert_error(weir.run('wake', id, '--waiting-for', 'approval', '--dry-run'), 2, 'invalid_argument', 'weir approve')
    for kind in ('signal', 'approval'):
        assert_error(weir.run('wake', '--where', f'waiting_for={kind}', '--dry-run'), 2, 'invalid_argument')


def a_rejection_skips_or_fails(weir):
    _scene(weir)
    _node(weir)
    id = _waiting(weir, 'pay')
    weir.good('reject', id, '--comment', 'too much', '-q')
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _steps(shown)['pay'][0] == 'SKIPPED', shown
    id = _waiting(weir, 'strict')
    weir.good('reject', id, 'ask', '--comment', 'too much', '-q')
    shown = weir.ended(id)
    assert shown['status'] == 'FAILED' and shown['error_code'] == 'rejected' and 'too much' in shown['error'], shown


def only_one_who_may_decides(weir):
    _scene(weir, by=['token:ops'])
    _node(weir)
    id = _waiting(weir, 'pay')
    assert 'waits for an approval by token:ops since ' in weir.good('why', id).out
    for verb in ('approve', 'reject'):
        assert_error(weir.run(verb, id), 5, 'not_permitted', 'these may: token:ops')
    assert_error(weir.run('signal', id, 'approve:ask', '--data', '{"approved":true}'), 2, 'invalid_argument')
    refused = [row for row in weir.items('audit') if row['act'] == 'approve refused']
    assert [row['subject'] for row in refused] == [id, id], refused
    assert weir.show(id)['status'] == 'WAITING'


def a_token_decides_over_http(weir):
    _scene(weir, by=['token:ops'])
    secret = {name: weir.good('token', 'create', name, '--role', 'enqueue', '--all-workspaces', '-q').out.strip()
              for name in ('ops', 'other')}
    listener = Listener(weir)
    id = _waiting(weir, 'pay')
    path = f'/v1/executions/{id}/approve'
    refused = problem(listener.ask(path, 'POST', body={}, authorization='Bearer ' + secret['other']), 403, 'not_permitted')
    assert 'token:other may not' in refused['detail'], refused
    sent = listener.ask(path, 'POST', body={'comment': 'fine'}, authorization='Bearer ' + secret['ops'])
    assert (sent.status, sent.json()) == (202, {'id': id, 'act': 'approve', 'step': 'ask'}), sent
    assert _steps(weir.ended(id))['ask'][1]['by'] == 'token:ops'
    problem(listener.ask(path, 'POST', body={}, authorization='Bearer ' + secret['ops']), 409, 'illegal_state')
    listener.stop()


def of_many_callers_one_decides(weir):
    _scene(weir)
    _node(weir)
    id = _waiting(weir, 'pay')
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: weir.run('approve' if n % 2 else 'reject', id, 'ask'), range(8)))
    assert sorted(result.code for result in results) == [0] + [4] * 7, results
    shown = weir.ended(id)
    assert len(shown['signals']) == 1 and shown['signals'][0]['step'] == 'ask', shown


def a_node_that_is_killed_around_the_decision_loses_nothing(weir):
    _scene(weir)
    for point, passes in KILL_POINTS.items():
        for count in passes:
            node = _node(weir)
            id = _waiting(weir, 'pay')
            node.send_signal(signal.SIGTERM)
            node.wait()
            weir.good('approve', id, '-q')
            node = _node(weir, WEIR_FAILPOINT=f'{point}:kill:{count}')
            assert node.wait(timeout=60) == -signal.SIGKILL, (point, count)
            other = _node(weir)
            shown = weir.ended(id)
            assert shown['status'] == 'COMPLETED' and _steps(shown)['ask'][1]['approved'] is True, (point, count, shown)
            assert [row['step'] for row in shown['signals']] == ['ask'], (point, count, shown)
            other.send_signal(signal.SIGTERM)
            other.wait()
    assert weir.good('store', 'check', '--json').json()['problems'] == []


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
