#!/usr/bin/env python3
"""Workers as people see them: `weir worker list`, handlers that no live node has, and the warnings of an enqueue.

usage: workers_test.py BINARY [TEST ...]      the worker is the program in WEIR_NODE_PROGRAM
"""

import os
import signal
import subprocess
import sys

from harness import run_tests
from http_client import LONG_LEASE
from waiting import wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get('WEIR_NODE_PROGRAM') or os.path.join(ROOT, 'build', 'tests', 'end_to_end', 'node_program')
RECORD = 'name: book\nsteps:\n  write: {handler: record}\n'


def _store(weir):
    weir.environment.update(LONG_LEASE)
    weir.make_store()
    weir.write('book.yaml', RECORD)
    weir.good('workflow', 'apply', 'book.yaml', '-q')


def _worker(weir, name='worker-1'):
    """A program with the handler `record`; it stops when its input ends."""
    worker = subprocess.Popen([PROGRAM, weir.path('weir.db'), name, weir.path('records'), weir.path('locks'), '0'],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=weir.folder, env=weir.environment)
    weir.background.append(worker)
    assert worker.stdout.readline() == b'started\n'
    return worker


def _stop(worker):
    worker.stdin.close()
    assert worker.wait(timeout=60) == 0


def _why(weir, execution):
    return weir.good('why', execution, '--json').json()


def the_list_shows_language_handlers_and_use(weir):
    _store(weir)
    assert 'no live node has handlers' in weir.good('worker', 'list').err
    worker = _worker(weir)
    row, = weir.items('worker', 'list')
    assert row['name'] == 'worker-1' and row['language'] == 'C' and row['handlers'] == ['record'], row
    assert row['running'] == 0 and row['capacity'] == 64 and row['seen_at'] and row['state'] == 'alive', row
    table = weir.good('worker', 'list').out
    assert 'worker-1' in table and 'record' in table and 'LANGUAGE' in table, table
    _stop(worker)
    assert weir.items('worker', 'list') == []
    row, = weir.items('worker', 'list', '--all')
    assert row['state'] == 'stopped', row


def a_handler_that_no_node_has_is_named_and_its_worker_starts_it_at_once(weir):
    _store(weir)
    worker = _worker(weir)
    _stop(worker)
    execution = weir.enqueue('-w', 'acme', 'book')
    shown = weir.good('why', execution)
    assert _why(weir, execution)['pending_reason'] == 'no_node_in_group', shown
    assert 'weir serve' not in shown.err and 'weir worker list' in shown.err, shown  # such a node has no handlers
    steps = weir.spawn('serve', '--node', 'steps')
    wait_for('the node', lambda: weir.items('node', 'list'))
    why = _why(weir, execution)
    assert why['pending_reason'] == 'no_worker' and why['deferrals'] == 0 and why['handlers_missing'] == ['record'], why
    assert why['last_worker'] == 'worker-1' and why['no_worker_since'] and why['group_nodes'] == ['steps'], why
    shown = weir.good('why', execution)
    assert 'no live node of group default has the handler record; worker-1 (C) had it last' in shown.out, shown
    assert 'release' not in shown.err and 'weir worker list' in shown.err, shown
    status = weir.good('status', '--json').json()
    assert status['pending_reasons']['no_worker'] == 1 and status['pending_reasons']['backing_off'] == 0, status
    row, = status['no_worker']
    assert row['workflow'] == 'book' and row['waiting'] == 1 and row['last_worker'] == 'worker-1', row
    assert 'has the handler record' in weir.good('status').out
    doctor = weir.run('doctor')
    assert doctor.code == 1 and 'has the handler record' in doctor.out + doctor.err, doctor
    assert len(weir.items('list', '--where', 'pending_reason=no_worker')) == 1
    steps.send_signal(signal.SIGTERM)
    assert steps.wait(timeout=60) == 0
    _worker(weir, 'worker-2')
    weir.good('wait', execution, '--timeout', '60s')


def nodes_of_one_group_with_different_handlers_put_nothing_back(weir):
    _store(weir)
    weir.spawn('serve', '--node', 'steps', '--allow-exec')
    wait_for('the node', lambda: weir.items('node', 'list'))
    worker = _worker(weir)
    executions = [weir.enqueue('-w', 'acme', workflow) for _ in range(20) for workflow in ('book', 'hello')]
    for execution in executions:
        weir.good('wait', execution, '--timeout', '60s')
    shown = [weir.good('show', execution, '--json').json() for execution in executions]
    assert [s['deferrals'] for s in shown] == [0] * len(shown), shown
    assert {s['node'] for s in shown if s['workflow'] == 'book'} == {'worker-1'}, shown
    _stop(worker)


def an_enqueue_warns_of_what_nobody_serves(weir):
    _store(weir)
    answer = weir.good('enqueue', '-w', 'acme', 'hello', '--json')
    assert answer.json()['warnings'] == [
        'no live node serves the group default: the execution waits for one; start it with: weir serve'
        ' --executor-group default,'
        ' or a worker of this group'], answer
    assert 'no live node serves the group default' in answer.err, answer
    warning, = weir.good('enqueue', '-w', 'acme', 'book', '--json').json()['warnings']
    assert 'has the handler record' in warning and 'weir serve' not in warning, warning  # it has no handlers
    weir.spawn('serve', '--allow-exec')
    wait_for('the node', lambda: weir.items('node', 'list'))
    answer = weir.good('enqueue', '-w', 'acme', 'book', '--json')
    warning, = answer.json()['warnings']
    assert 'no live node of group default has the handler record; no node on record had it' in warning, answer
    assert warning in answer.err, answer
    answer = weir.good('enqueue', '-w', 'acme', 'hello', '--json')
    assert answer.json()['warnings'] == [] and answer.err == '', answer
    refused = weir.run('enqueue', '-w', 'acme', 'hello', '--executor-group', 'nogroup')
    assert refused.code != 0 and 'there are: "default"' in refused.err, refused


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
