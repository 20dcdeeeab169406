#!/usr/bin/env python3
"""Workers over HTTP: the cases that every client must pass, the statuses of the protocol, and kills of nodes and workers.

usage: http_workers_test.py BINARY [--postgres] [TEST ...]
"""

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time

import http_worker
from harness import LONG_CAMPAIGNS, assert_error, run_tests
from http_client import Listener
from ports import free_port
from postgres_server import PostgresServer, client_program
from waiting import SHORT, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, '..', 'workers', 'cases.json')
ON_POSTGRES = '--postgres' in sys.argv
CAP = 5  # of the plan pro
SEED = int(os.environ.get('WEIR_TEST_SEED') or random.randrange(1 << 30))
KILLS = 200 if LONG_CAMPAIGNS else 12
server = None


def _store(weir, **settings):
    settings = {'http.task_lease': '60s', 'node.lease': '2m', **settings}
    lines = [f'{key}: {value}' for key, value in settings.items()]
    if ON_POSTGRES:
        global server
        server = server or PostgresServer()
        weir.store_url = server.url(server.database())
        lines.append(f'store: {weir.store_url}')
    weir.write('weir.yaml', '\n'.join(lines) + '\n')
    weir.good('store', 'init', '-q')
    weir.good('workspace', 'set', 'acme', '--plan', 'pro', '-q')


def _apply(weir, name, **step):
    weir.write(f'{name}.yaml', json.dumps({'name': name, 'steps': {'only': step}}))
    weir.good('workflow', 'apply', f'{name}.yaml', '-q')


def _node(weir, name, port):
    process = weir.spawn('serve', '--node', name, '--listen', f'127.0.0.1:{port}', stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE)
    wait_for('the listener', lambda: b'http at' in process.stderr.readline(), pause=SHORT)
    return process


# --- the cases of all clients ---

def _scripted(begun):
    def handler(run):
        acts = run.task['input']['acts']
        (act, value), = acts[min(run.task['attempt'], len(acts)) - 1].items()
        begun.set()
        if act == 'complete':
            return value
        if act == 'raise':
            raise RuntimeError(value)
        if act == 'report_progress':
            run.report_progress(value['fraction'], value['text'] and value['text'] * value.get('repeat', 1))
        if act in ('await_cancel', 'report_progress'):
            assert run.cancelled.wait(60), 'the cancel does not arrive'
            return None
        if act == 'await_stop':
            assert run.stopped.wait(60), 'the stop does not arrive'
            raise RuntimeError('stopped')
        raise http_worker.Retry(value['code'], value['error'], value.get('after_us'), act == 'retry')
    return handler


def _progress(weir, execution):
    shown = weir.show(execution)
    return [{key: report[key] for key in ('fraction', 'text')} for report in shown['progress']]


def a_client_passes_the_cases(weir):
    _store(weir)
    node = Listener(weir)
    begun = threading.Event()

    def start_worker(name):
        worker = http_worker.Worker(name, [f'http://127.0.0.1:{node.port}'], {'scripted': _scripted(begun)})
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        return worker, thread
    worker, thread = start_worker('cases')
    with open(CASES) as file:
        cases = json.load(file)['cases']
    for number, case in enumerate(cases):
        begun.clear()
        _apply(weir, f'case-{number}', handler='scripted', **case.get('workflow', {}))
        execution = weir.enqueue('-w', 'acme', f'case-{number}', '-p', json.dumps({'acts': case['acts']}))
        if 'progress' in case:
            wait_for('the progress', lambda: _progress(weir, execution) == [case['progress']], pause=SHORT)
        if case.get('cancel'):
            assert begun.wait(60)
            weir.good('cancel', execution, '-q')
        stopped = time.monotonic()
        if case.get('stop'):
            assert begun.wait(60)
            worker.stop_runs()
            thread.join(60)
            worker, thread = start_worker('cases-2')
        shown = weir.ended(execution)
        assert not case.get('stop') or time.monotonic() - stopped < 20, time.monotonic() - stopped
        step, = shown['steps']
        expected = case['expect']
        assert shown['status'] == expected['status'], (case['name'], shown)
        assert shown['error_code'] == expected.get('error_code'), (case['name'], shown)
        for key in ('attempt', 'failures', 'output'):
            assert key not in expected or step[key] == expected[key], (case['name'], shown)
    worker.stopping.set()
    thread.join(60)
    node.stop()


# --- the protocol ---

def _ask(node, verb, body):
    return node.ask(f'/v1/tasks:{verb}', 'POST', body=body)


def _complete_next(node, claim):
    """Completes the next task and returns it. Where this test is late, the lease ends, and the task comes again."""
    def try_next():
        task, = _ask(node, 'claim', claim).json()['tasks']
        answer = _ask(node, 'complete', {'worker': claim['worker'], 'tasks': [{'task': task['task']}]})
        assert answer.status == 200 or answer.json()['code'] == 'task_lost', answer
        return task if answer.status == 200 else None
    return wait_for('a result in time', try_next, pause=SHORT)


def the_statuses_are_those_of_the_document(weir):
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir).ready()
    claim = {'worker': 'w1', 'handlers': ['job'], 'max': 2, 'wait_us': 60000000}
    execution = weir.enqueue('-w', 'acme', 'job', '-p', '{"n": 1}')
    why = weir.good('why', execution, '--json').json()
    assert why['pending_reason'] == 'no_worker', why
    answer = _ask(node, 'claim', claim)
    assert answer.status == 200, answer
    task, = answer.json()['tasks']
    assert task['execution_id'] == execution and task['input'] == {'n': 1} and task['workspace'] == 'acme', task
    assert task['idempotency_key'] == f'{execution}/only' and task['timeout_us'] is None, task
    assert answer.json()['lease_us'] == 60000000, answer
    mine = {'worker': 'w1', 'tasks': [{'task': task['task']}]}
    answer = _ask(node, 'heartbeat', mine)
    assert answer.status == 200 and answer.json()['tasks'][0]['verdict'] == 'accepted', answer
    answer = _ask(node, 'complete', {**mine, 'worker': 'w2'})
    assert answer.status == 409 and answer.json()['code'] == 'task_lost', answer
    done = {'worker': 'w1', 'tasks': [{'task': task['task'], 'output': [1]}]}
    for _ in range(2):  # the second one changes nothing, and is answered in the same way
        answer = _ask(node, 'complete', done)
        assert answer.status == 200 and answer.json()['tasks'][0]['verdict'] == 'accepted', answer
    answer = _ask(node, 'fail', mine)
    assert answer.status == 409 and answer.json()['code'] == 'task_lost', answer
    assert weir.ended(execution)['steps'][0]['output'] == [1]
    answer = _ask(node, 'heartbeat', {'worker': 'w1', 'tasks': [{'task': 'x/y/1/1'}]})
    assert answer.status == 404 and answer.json()['code'] == 'task_unknown', answer
    both = {'worker': 'w1', 'tasks': [{'task': 'x/y/1/1'}, {'task': task['task']}]}
    answer = _ask(node, 'heartbeat', both)
    words = [item['verdict'] for item in answer.json()['tasks']]
    assert answer.status == 200 and words == ['task_unknown', 'task_lost'], answer
    node.stop()


def what_is_no_claim_and_no_report_is_refused_with_the_place(weir):
    _store(weir)
    node = Listener(weir)
    claim = {'worker': 'w1', 'handlers': ['job']}
    report = {'worker': 'w1', 'tasks': [{'task': 'x/y/1/1'}]}
    for verb, body, pointer, text in (
            ('claim', {}, '/worker', '`worker`'),
            ('claim', [], None, 'object'),
            ('claim', {**claim, 'worker': 'w' * 200}, None, '`worker`'),
            ('claim', {**claim, 'handlers': 'job'}, '/handlers', '`handlers`'),
            ('claim', {**claim, 'handlers': [1]}, '/handlers', '`handlers`'),
            ('claim', {**claim, 'handlers': ['No Name']}, None, 'No Name'),
            ('claim', {**claim, 'max': 1001}, '/max', '`max`'),
            ('claim', {**claim, 'max': -1}, '/max', '`max`'),
            ('claim', {**claim, 'wait_us': 60000001}, '/wait_us', '`wait_us`'),
            ('claim', {**claim, 'wait': 1}, '/wait', 'wait'),
            ('claim', {**claim, 'worker': 'w1\0w2'}, '/worker', 'NUL'),
            ('claim', {**claim, 'handlers': ['job\0s']}, '/handlers', 'NUL'),
            ('heartbeat', {**report, 'worker': 'w1\0w2'}, '/worker', 'NUL'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x/y/1/1\0'}]}, '/tasks/0/task', 'NUL'),
            ('fail', {**report, 'tasks': [{'task': 'x', 'error': 'a\0b'}]}, '/tasks/0/error', 'NUL'),
            ('fail', {**report, 'tasks': [{'task': 'x', 'error_code': 'a\0b'}]}, '/tasks/0/error_code', 'NUL'),
            ('heartbeat', {**report, 'tasks': []}, '/tasks', '`tasks`'),
            ('heartbeat', {**report, 'tasks': [1]}, '/tasks/0', 'object'),
            ('heartbeat', {**report, 'worker': ''}, '/worker', '`worker`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x'}, {'task': 1}]}, '/tasks/1/task', '`task`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'log': 'text'}]}, '/tasks/0/log', '`log`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'log': [{'text': 'a'}] * 1001}]}, '/tasks/0/log', '`log`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'log': ['a']}]}, '/tasks/0/log/0/text', '`text`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'log': [{'text': 'a'}, {'text': 'a\0b'}]}]},
             '/tasks/0/log/1/text', 'NUL'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'log': [{'text': 'a', 'at': 1}]}]}, '/tasks/0/log/0/at', 'at'),
            ('fail', {**report, 'tasks': [{'task': 'x', 'log': [{'text': 'a', 'stream': 'x'}]}]},
             '/tasks/0/log/0/stream', 'stdout'),
            ('fail', {**report, 'tasks': [{'task': 'x', 'log_at': -1}]}, '/tasks/0/log_at', '`log_at`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'progress': 0.4}]}, '/tasks/0/progress', '`progress`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'progress': {'fraction': '0.4'}}]},
             '/tasks/0/progress/fraction', '`fraction`'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'progress': {'text': 'a\0b'}}]},
             '/tasks/0/progress/text', 'NUL'),
            ('heartbeat', {**report, 'tasks': [{'task': 'x', 'progress': {'part': 1}}]}, '/tasks/0/progress/part', 'part'),
            ('complete', {**report, 'tasks': [{'task': 'x', 'progress': {}}]}, '/tasks/0/progress', 'progress'),
            ('complete', {**report, 'tasks': [{'task': 'x', 'error_code': 'c'}]}, '/tasks/0/error_code', 'error_code'),
            ('fail', {**report, 'tasks': [{'task': 'x', 'retry': 1}]}, '/tasks/0/retry', '`retry`'),
            ('fail', {**report, 'tasks': [{'task': 'x', 'retry_after_us': -5}]},
             '/tasks/0/retry_after_us', 'retry_after_us'),
            ('leave', {'worker': 'w' * 200}, '/worker', '`worker`'),
            ('leave', {**report}, '/tasks', 'tasks'),
            ('leave', {'worker': 'w1', 'keeps': 'x/y/1/1'}, '/keeps', '`keeps`'),
            ('leave', {'worker': 'w1', 'keeps': [1]}, '/keeps', '`keeps`'),
            ('leave', {'worker': 'w1', 'keeps': ['x\0']}, '/keeps', 'NUL'),
            ('leave', {'worker': 'w1', 'keeps': ['x'] * 1001}, '/keeps', '`keeps`')):
        answer = _ask(node, verb, body)
        assert answer.status == 400 and text in answer.json()['detail'], (verb, body, answer)
        assert (answer.json().get('errors') or [{}])[0].get('pointer') == pointer, (verb, body, answer)
    answer = _ask(node, 'claim', {**claim, 'x': 'y' * 256 * 1024})  # names alone need no more
    assert answer.status == 413, answer
    answer = node.ask('/v1/tasks:complete', 'POST', body=b'{"worker":"w1","tasks":[' + b'{},' * 5000000 + b'{}]}',
                      content_type='application/json')
    assert answer.status == 400 and 'too many values' in answer.json()['detail'], answer
    answer = _ask(node, 'claim', {**claim, 'executor_group': 'other'})
    assert answer.status == 404 and 'other' in answer.json()['detail'], answer
    node.stop()


def _node_row(weir):
    row, = (row for row in weir.items('node', 'list') if row['state'] == 'alive')
    return row


def the_capacity_of_a_node_is_that_of_its_workers(weir):
    _store(weir, **{'executor.capacity': 'workers'})
    weir.good('workspace', 'set', 'acme', '--plan', 'enterprise', '-q')
    _apply(weir, 'job', handler='job')
    _apply(weir, 'plain', exec=['true'])
    node = Listener(weir)
    plain = weir.enqueue('-w', 'acme', 'plain')
    wait_for('a node', lambda: _node_row(weir)['capacity'] == 0)
    assert weir.show(plain)['status'] == 'PENDING'
    claim = {'worker': 'w1', 'handlers': ['job'], 'max': 3, 'wait_us': 0}
    assert _ask(node, 'claim', {**claim, 'max': 2}).json()['tasks'] == []
    assert weir.ended(plain)['status'] == 'COMPLETED'
    jobs = [weir.enqueue('-w', 'acme', 'job') for _ in range(6)]
    tasks = []

    def claim_more(most):
        asked = _ask(node, 'claim', {**claim, 'max': most - len(tasks), 'wait_us': 1000000}).json()['tasks']
        tasks.extend(asked)
        return len(tasks) == most
    wait_for('two tasks', lambda: claim_more(2), pause=SHORT)
    _ask(node, 'claim', {**claim, 'max': 0})  # a heartbeat of the worker

    def is_full():
        dispatched = [row['id'] for row in weir.items('list') if row['status'] == 'DISPATCHED']
        assert len(dispatched) <= 2, dispatched
        return len(dispatched) == 2 and _node_row(weir)['capacity'] == 2
    wait_for('the records of both', is_full)
    wait_for('four tasks', lambda: claim_more(4), pause=SHORT)
    other = {**claim, 'worker': 'w2', 'max': 1, 'wait_us': 5000000}
    fifth, = wait_for('a task of the second worker', lambda: _ask(node, 'claim', other).json()['tasks'], pause=SHORT)
    ids = {task['execution_id'] for task in [*tasks, fifth]}
    assert len(ids) == 5 and ids < set(jobs), ids
    for worker, mine in (('w1', tasks), ('w2', [fifth])):
        done = {'worker': worker, 'tasks': [{'task': task['task']} for task in mine]}
        assert _ask(node, 'complete', done).status == 200
    last = _complete_next(node, {**claim, 'max': 1, 'wait_us': 60000000})
    assert {*ids, last['execution_id']} == set(jobs), last
    node.stop()


def a_capacity_of_workers_without_a_listener_is_refused(weir):
    _store(weir, **{'executor.capacity': 'workers'})
    refused = weir.run('serve')
    assert_error(refused, 2, 'invalid_argument', 'executor.capacity: workers', '--listen')
    assert refused.out == '', refused
    weir.write('weir.yaml', 'executor.capacity: some\n')
    refused = weir.run('serve', code=None)
    assert refused.code != 0 and 'own workers' in refused.err, refused


def a_log_that_comes_twice_is_written_once(weir):
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir)
    traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    execution = weir.enqueue('-w', 'acme', 'job', '--traceparent', traceparent)
    task, = _ask(node, 'claim', {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}).json()['tasks']
    assert task['traceparent'].split('-')[1] == traceparent.split('-')[1], task
    log = [{'text': 'one\n'}, {'stream': 'stderr', 'text': 'two'}]
    item = {'task': task['task'], 'log_at': 0, 'log': log}
    for _ in range(2):
        assert _ask(node, 'heartbeat', {'worker': 'w1', 'tasks': [item]}).status == 200
    done = {'worker': 'w1', 'tasks': [{'task': task['task'], 'log_at': 7, 'log': [{'stream': 'stdout', 'text': 'three'}]}]}
    for _ in range(2):
        assert _ask(node, 'complete', done).status == 200
    assert weir.ended(execution)['status'] == 'COMPLETED'
    text = weir.good('logs', execution).out
    assert [text.count(word) for word in ('one', 'two', 'three')] == [1, 1, 1], text
    node.stop()


def the_progress_of_a_task_is_shown_until_its_end(weir):
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir)
    execution = weir.enqueue('-w', 'acme', 'job')
    task, = _ask(node, 'claim', {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}).json()['tasks']

    def lines():
        return [line.split(None, 1)[1] for line in weir.good('show', execution).out.splitlines()
                if line.strip().startswith('progress')]

    assert lines() == []
    for report, line in (({'fraction': 0.4, 'text': '400 of \x1b[1m1000\n'}, 'only: 40 %, 400 of ?[1m1000'),
                         ({'fraction': 0.125}, 'only: 12.5 %'),
                         ({'fraction': 7, 'text': 'x' * 300}, f'only: 100 %, {"x" * 200}'),
                         ({'text': 'nearly there'}, 'only: nearly there'), ({}, 'only: ?')):
        heartbeat = {'worker': 'w1', 'tasks': [{'task': task['task'], 'progress': report}]}
        assert _ask(node, 'heartbeat', heartbeat).json()['tasks'][0]['verdict'] == 'accepted'
        wait_for(line, lambda line=line: [each.strip() for each in lines()] == [line], pause=SHORT)
    assert _ask(node, 'heartbeat', {'worker': 'w1', 'tasks': [{'task': task['task'], 'progress': None}]}).status == 200
    assert [each.strip() for each in lines()] == ['only: ?']
    shown = json.loads(node.ask(f'/v1/executions/{execution}').body)
    assert shown['progress'] == weir.show(execution)['progress'], shown
    assert _ask(node, 'complete', {'worker': 'w1', 'tasks': [{'task': task['task']}]}).status == 200
    shown = weir.ended(execution)
    assert shown['status'] == 'COMPLETED' and shown['progress'] == [] and lines() == []
    node.stop()


def progress_is_never_hidden_by_a_304_and_makes_no_act_stale(weir):
    """And its fraction is printed as it was sent: 0.35 is no number of binary digits."""
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir)
    execution = weir.enqueue('-w', 'acme', 'job')
    path = f'/v1/executions/{execution}'
    task, = _ask(node, 'claim', {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}).json()['tasks']

    def tag_with(fraction):
        report = {'task': task['task'], 'progress': {'fraction': fraction}}
        assert _ask(node, 'heartbeat', {'worker': 'w1', 'tasks': [report]}).status == 200
        wait_for('the progress', lambda: [each['fraction'] for each in _progress(weir, execution)] == [fraction],
                 pause=SHORT)
        return node.ask(path).head['etag']

    first = tag_with(0.35)
    for text in (weir.good('show', execution, '--json').out, node.ask(path).body.decode()):
        assert '"fraction":0.35,' in text.replace('}', ','), text
    assert node.ask(path, if_none_match=first).status == 304
    second = tag_with(0.7)
    shown = node.ask(path, if_none_match=first)
    assert shown.status == 200 and shown.head['etag'] == second != first, shown
    assert shown.json()['progress'][0]['fraction'] == 0.7, shown.body
    assert node.ask(f'{path}/cancel', 'POST', if_match=first).status == 202
    stale = node.ask(f'{path}/cancel', 'POST', if_match=first)
    assert stale.status == 412 and stale.head['etag'] not in (first, second), stale
    assert _ask(node, 'complete', {'worker': 'w1', 'tasks': [{'task': task['task']}]}).status == 200
    weir.ended(execution)
    node.stop()


@contextlib.contextmanager
def _held_store(weir, execution):
    """A transaction of another program keeps the node from recording the execution."""
    if not ON_POSTGRES:
        with contextlib.closing(weir.database()) as database:
            database.execute('BEGIN IMMEDIATE')
            yield
        return
    psql = subprocess.Popen([client_program('psql'), '-qXAt', weir.store_url], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    weir.background.append(psql)
    psql.stdin.write(f"BEGIN; SELECT id FROM weir.workflow_execution_queue WHERE id = '{execution}' FOR UPDATE;\n")
    psql.stdin.flush()
    assert psql.stdout.readline().strip() == execution
    yield
    psql.communicate('ROLLBACK;\n')


def a_repeated_report_does_not_end_the_next_attempt(weir):
    """The node records the failure and dies before its answer arrives: the client sends the report again."""
    _store(weir)
    _apply(weir, 'job', handler='job', retry={'attempts': 2, 'backoff': '1ms'})
    node = Listener(weir)
    claim = {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}
    execution = weir.enqueue('-w', 'acme', 'job')
    task, = _ask(node, 'claim', claim).json()['tasks']
    failed = {'worker': 'w1', 'tasks': [{'task': task['task'], 'error_code': 'busy'}]}
    assert _ask(node, 'fail', failed).status == 200
    wait_for('the record', lambda: any(step['failures'] == 1 for step in weir.show(execution)['steps']), pause=SHORT)
    node.process.kill()
    node.process.wait()
    weir.environment['WEIR_HTTP_TASK_LEASE'] = '2s'  # for so long a worker may still run the step
    node = Listener(weir)
    assert _ask(node, 'claim', {**claim, 'max': 0, 'wait_us': 0}).status == 200  # the node has the handler

    def known():
        answer = _ask(node, 'fail', failed)
        return answer if answer.status != 404 else None

    answer = wait_for('the task', known, pause=SHORT)
    assert answer.status == 409 and answer.json()['code'] == 'task_lost', answer
    again = _complete_next(node, claim)
    assert again['attempt'] > task['attempt'], again
    shown = weir.ended(execution)
    assert shown['status'] == 'COMPLETED' and shown['steps'][0]['failures'] == 1, shown
    node.stop()


def a_result_is_acknowledged_when_it_is_durable(weir):
    """A transaction of another program holds the execution, so the node cannot record the end."""
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir)
    execution = weir.enqueue('-w', 'acme', 'job')
    task, = _ask(node, 'claim', {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}).json()['tasks']
    wait_for('the record of the start', lambda: weir.show(execution)['status'] == 'DISPATCHED', pause=SHORT)
    done = {'worker': 'w1', 'tasks': [{'task': task['task'], 'output': 'sent'}]}
    with _held_store(weir, execution):
        answer = _ask(node, 'complete', done)
        assert answer.status == 503 and answer.json()['code'] == 'store_unreachable', answer
        answer = _ask(node, 'heartbeat', {'worker': 'w1', 'tasks': [{'task': task['task']}]})
        assert answer.status == 200, answer
    answer = _ask(node, 'complete', done)
    assert answer.status == 200 and answer.json()['tasks'][0]['verdict'] == 'accepted', answer
    shown = weir.show(execution)  # at once: the answer has waited for the record
    assert shown['status'] == 'COMPLETED' and shown['steps'][0]['attempt'] == 1, shown
    node.stop()


def a_claim_that_waits_ends_with_its_time_and_with_the_node(weir):
    _store(weir)
    node = Listener(weir)
    answer = _ask(node, 'claim', {'worker': 'w1', 'handlers': ['job'], 'wait_us': 300000})
    assert answer.status == 200 and answer.json()['tasks'] == [] and answer.json()['waited_us'] >= 300000, answer
    answers = []
    body = {'worker': 'w2', 'handlers': ['other'], 'wait_us': 60000000}
    waiting = threading.Thread(target=lambda: answers.append(_ask(node, 'claim', body)), daemon=True)
    waiting.start()
    wait_for('the second worker', lambda: [row for row in weir.items('worker', 'list') if 'other' in row['handlers']])
    node.stop()
    waiting.join(60)
    assert answers and answers[0].status == 503, answers


def a_task_is_not_given_to_a_worker_that_has_closed_its_connection(weir):
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir)
    claim = {'handlers': ['job'], 'wait_us': 60000000}
    body = json.dumps({'worker': 'gone', **claim}).encode()
    with node.connect() as connection:
        connection.sendall(b'POST /v1/tasks:claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                           b'Content-Length: %d\r\n\r\n%s' % (len(body), body))
        wait_for('the worker that leaves', lambda: weir.items('worker', 'list'))
    answers = []
    claim['worker'] = 'stays'
    waiting = threading.Thread(target=lambda: answers.append(_ask(node, 'claim', claim)), daemon=True)
    waiting.start()
    execution = weir.enqueue('-w', 'acme', 'job')
    waiting.join(60)
    task, = answers[0].json()['tasks']
    assert (task['execution_id'], task['attempt']) == (execution, 1), task
    assert _ask(node, 'complete', {'worker': 'stays', 'tasks': [{'task': task['task']}]}).status == 200
    node.stop()


def a_node_whose_worker_has_left_is_named_as_the_last_one(weir):
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir).ready()
    _ask(node, 'claim', {'worker': 'w1', 'handlers': ['job'], 'max': 0})
    row, = wait_for('the handler', lambda: weir.items('worker', 'list'))
    assert (row['language'], row['handlers']) == ('HTTP', ['job']), row
    _ask(node, 'leave', {'worker': 'w1'})
    wait_for('the end of the handler', lambda: not weir.items('worker', 'list'))
    execution = weir.enqueue('-w', 'acme', 'job')
    why = weir.good('why', execution, '--json').json()
    assert why['pending_reason'] == 'no_worker', why
    assert (why['last_worker'], why['last_worker_language']) == (row['name'], 'HTTP'), why
    text = f'{row["name"]} (HTTP) had it last'
    assert text in weir.good('why', execution).out and text in weir.good('status').out, why
    node.stop()


def a_worker_that_leaves_gives_its_tasks_to_others_at_once(weir):
    """The lease is 60 s. The step goes at once to a worker of the same node, and on PostgreSQL to one of another node."""
    _store(weir)
    _apply(weir, 'job', handler='job', retry={'attempts': 1})
    node = Listener(weir)
    other = Listener(weir, output='other') if ON_POSTGRES else node
    claim = {'handlers': ['job'], 'wait_us': 60000000}
    began = time.monotonic()
    executions = [weir.enqueue('-w', 'acme', 'job') for _ in range(2)]
    tasks = []
    while len(tasks) < 2:
        tasks += _ask(node, 'claim', {'worker': 'w1', 'max': 2 - len(tasks), **claim}).json()['tasks']
    kept = next(task['task'] for task in tasks if task['execution_id'] == executions[1])
    left = next(task for task in tasks if task['execution_id'] == executions[0])
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(_ask(node, 'claim', {'worker': 'w2', **claim})), daemon=True)
    waiting.start()
    answer = _ask(node, 'leave', {'worker': 'w1', 'keeps': [kept]})
    assert answer.status == 200 and answer.json() == {'given_back': 1}, answer
    waiting.join(60)
    again, = answers[0].json()['tasks']
    assert again['execution_id'] == executions[0] and again['attempt'] > left['attempt'], again
    assert _ask(node, 'complete', {'worker': 'w1', 'tasks': [{'task': left['task']}]}).status == 409
    assert _ask(node, 'heartbeat', {'worker': 'w1', 'tasks': [{'task': kept}]}).status == 200
    assert _ask(node, 'complete', {'worker': 'w1', 'tasks': [{'task': kept}]}).status == 200
    assert weir.ended(executions[1])['status'] == 'COMPLETED'
    assert _ask(node, 'leave', {'worker': 'w2'}).json() == {'given_back': 1}
    assert _ask(node, 'leave', {'worker': 'w2'}).json() == {'given_back': 0}  # repeated after a lost answer
    last, = _ask(other, 'claim', {'worker': 'w3', **claim}).json()['tasks']
    assert last['execution_id'] == executions[0] and last['attempt'] > again['attempt'], last
    assert _ask(other, 'complete', {'worker': 'w3', 'tasks': [{'task': last['task']}]}).status == 200
    shown = weir.ended(executions[0])
    assert shown['status'] == 'COMPLETED' and shown['steps'][0]['failures'] == 0, shown
    assert time.monotonic() - began < 30, time.monotonic() - began
    weir.good('store', 'check', '-q')
    node.stop()
    if ON_POSTGRES:
        other.stop()


def a_claim_of_a_worker_that_leaves_gets_no_task(weir):
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir)
    claim = {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(_ask(node, 'claim', claim)), daemon=True)
    waiting.start()
    wait_for('the worker', lambda: weir.items('worker', 'list'))
    assert _ask(node, 'leave', {'worker': 'w1'}).json() == {'given_back': 0}
    waiting.join(30)
    assert answers and (answers[0].status, answers[0].json()['code']) == (503, 'stopped'), answers
    wait_for('the end of the handler', lambda: weir.items('worker', 'list') == [])  # long before the lease
    execution = weir.enqueue('-w', 'acme', 'job')
    assert weir.good('why', execution, '--json').json()['pending_reason'] == 'no_worker'
    node.stop()


def without_a_worker_an_execution_goes_back_and_the_reason_names_the_handler(weir):
    _store(weir, **{'http.task_lease': '2s'})
    _apply(weir, 'job', handler='job')
    node = Listener(weir)
    execution = weir.enqueue('-w', 'acme', 'job')
    claim = {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}
    task, = _ask(node, 'claim', claim).json()['tasks']
    # The worker is silent from now on: the task and the handler end with its lease.
    wait_for('the reason', lambda: weir.good('why', execution, '--json').json().get('handlers_missing') == ['job'])
    assert weir.items('worker', 'list') == []
    answer = _ask(node, 'complete', {'worker': 'w1', 'tasks': [{'task': task['task']}]})
    assert answer.status == 409, answer
    again = _complete_next(node, {**claim, 'worker': 'w2'})
    assert again['attempt'] > task['attempt'] and again['fence'] > task['fence'], again
    assert again['idempotency_key'] == task['idempotency_key'], again
    assert weir.ended(execution)['status'] == 'COMPLETED'
    node.stop()


def a_task_that_no_worker_has_waits_for_no_lease(weir):
    """One worker has a task, and another one waits behind it, when the worker leaves for ever. Neither holds a slot
    then. The next worker gets both at once, although a lease is long; on PostgreSQL it is at another node."""
    _store(weir, **{'http.task_lease': '20s'})
    weir.good('plan', 'set', 'two', '--max-concurrent', '2', '-q')
    weir.good('workspace', 'set', 'acme', '--plan', 'two', '-q')
    _apply(weir, 'job', handler='job')
    _apply(weir, 'plain', exec=['true'])
    node = Listener(weir)
    jobs = [weir.enqueue('-w', 'acme', 'job') for _ in range(2)]
    claim = {'handlers': ['job'], 'wait_us': 60000000}
    task, = _ask(node, 'claim', {'worker': 'w1', 'max': 1, **claim}).json()['tasks']
    wait_for('the second task', lambda: len(weir.items('list', '--status', 'DISPATCHED')) == 2)
    plain = weir.enqueue('-w', 'acme', 'plain')  # it needs a slot
    wait_for('the reason', lambda: all(weir.good('why', job, '--json').json().get('pending_reason') == 'no_worker'
                                       for job in jobs))
    assert weir.ended(plain)['status'] == 'COMPLETED'
    other = Listener(weir, output='other') if ON_POSTGRES else node
    began = time.monotonic()
    claimed = []

    def claim_rest():
        claimed.extend(_ask(other, 'claim', {'worker': 'w2', 'max': 2 - len(claimed), **claim}).json()['tasks'])
        return len(claimed) == 2
    wait_for('both tasks', claim_rest, pause=SHORT)
    assert time.monotonic() - began < 10, time.monotonic() - began
    assert {item['execution_id'] for item in claimed} == set(jobs), claimed
    again, = (item for item in claimed if item['execution_id'] == task['execution_id'])
    assert again['attempt'] > task['attempt'] and again['fence'] > task['fence'], again
    assert _ask(other, 'complete', {'worker': 'w1', 'tasks': [{'task': task['task']}]}).status != 200  # too late
    done = {'worker': 'w2', 'tasks': [{'task': item['task']} for item in claimed]}
    assert _ask(other, 'complete', done).status == 200
    assert all(weir.ended(job)['status'] == 'COMPLETED' for job in jobs)
    weir.good('store', 'check', '-q')
    node.stop()
    if ON_POSTGRES:
        other.stop()


def a_thousand_workers_wait_without_a_thread(weir):
    _store(weir)
    _apply(weir, 'job', handler='job')
    node = Listener(weir).ready()

    def threads():
        return len(os.listdir(f'/proc/{node.process.pid}/task'))

    before, connections = threads(), []
    for number in range(1000):
        body = json.dumps({'worker': f'w{number}', 'handlers': ['job'], 'wait_us': 60000000}).encode()
        connection = node.connect()
        connection.sendall(b'POST /v1/tasks:claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                           b'Content-Length: %d\r\n\r\n' % len(body) + body)
        connections.append(connection)
    executions = [weir.enqueue('-w', 'acme', 'job') for _ in range(2)]
    assert threads() <= before + 1, (before, threads())
    # The first two that wait still have them: on a slow machine the wait of earlier ones is over, and a task without a
    # report comes a second time. The node answers others.
    given, waiting = set(), iter(connections)
    while given != set(executions):
        head = next(waiting).recv(65536)
        assert b'200 OK' in head, head
        given |= {execution for execution in executions if execution.encode() in head}
    node.ready()
    for connection in connections:
        connection.close()
    node.process.kill()


# --- kills ---

class Fleet:
    """Nodes and workers that are killed and started again. Where there is one SQLite file there is one node."""

    def __init__(self, weir):
        self.weir = weir
        self.random = random.Random(SEED)
        self.ports = [free_port() for _ in range(2 if ON_POSTGRES else 1)]
        self.nodes = [_node(weir, f'node-{place}', port) for place, port in enumerate(self.ports)]
        self.number, self.killed = 0, {}  # the time of a worker's death
        self.workers = [self.start_worker() for _ in range(3)]

    def start_worker(self):
        self.number += 1
        name = f'worker-{self.number}'
        urls = [f'http://127.0.0.1:{port}' for port in self.ports]
        urls = urls[self.number % len(urls):] + urls[:self.number % len(urls)]
        process = subprocess.Popen([sys.executable, os.path.join(HERE, 'http_worker.py'), name, '4',
                                    self.weir.path('records'), self.weir.path('locks'), *urls],
                                   stdout=subprocess.PIPE, cwd=self.weir.folder, env=self.weir.environment)
        self.weir.background.append(process)
        assert process.stdout.readline() == b'started\n'
        process.name = name
        return process

    def kill_worker(self):
        place = self.random.randrange(len(self.workers))
        process = self.workers[place]
        process.kill()
        process.wait()
        self.killed[process.name] = time.monotonic()
        self.workers[place] = self.start_worker()

    def kill_node(self):
        place = self.random.randrange(len(self.nodes))
        self.nodes[place].kill()
        self.nodes[place].wait()
        self.nodes[place] = _node(self.weir, f'node-{place}', self.ports[place])

    def records(self):
        if not os.path.exists(self.weir.path('records')):
            return []
        with open(self.weir.path('records')) as file:
            return [json.loads(line) for line in file]


def _last_records(records):
    """Of each run: the one of its end, if it has one."""
    return {record['run']: record for record in records if record['what'] in ('end', 'left')}


def _doubled(fleet):
    """The runs that began when another run of their step had neither ended nor lost its lease."""
    records = fleet.records()
    last = _last_records(records)

    def goes_on(run, at):
        end = last.get(run['run'])
        if end is None:
            return fleet.killed.get(run['worker'], math.inf) > at
        return min(end['at'], end['leased_until']) > at
    begun = [record for record in records if record['what'] == 'begin']
    return [record for record in records if record['what'] == 'overlap' and any(
        run['execution'] == record['execution'] and run['run'] != record['run'] and run['at'] < record['at'] and
        goes_on(run, record['at']) for run in begun)]


def _most_at_once(fleet, workspace):
    """The largest number of runs of the workspace at a time. A run without an end lasted until its worker was killed, and
    one that stood still until its lease was over."""
    runs = {}
    for record in fleet.records():
        if record['workspace'] == workspace:
            run = runs.setdefault(record['run'], {'end': fleet.killed.get(record['worker'])})
            run['begin' if record['what'] in ('begin', 'overlap') else 'end'] = record['at']
    for last in _last_records(fleet.records()).values():
        if last['run'] in runs:
            runs[last['run']]['end'] = max(min(last['at'], last['leased_until']), runs[last['run']]['begin'])
    steps = sorted([(run['begin'], 1) for run in runs.values()] +
                   [(run['end'], -1) for run in runs.values()])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def kills_of_nodes_and_workers_lose_nothing_and_double_nothing(weir):
    print(f'# WEIR_TEST_SEED={SEED}')
    _store(weir, **{'http.task_lease': '2s'})
    _apply(weir, 'job', handler='record')
    os.mkdir(weir.path('locks'))
    fleet = Fleet(weir)
    executions = []
    for kill in range(KILLS):
        before = len(fleet.records())
        for _ in range(6):
            executions.append(weir.enqueue('-w', 'acme', 'job', '-p', json.dumps({'seconds': fleet.random.random() * 0.6})))
        wait_for('a run', lambda: len(fleet.records()) > before, pause=SHORT)
        fleet.kill_node() if kill % 2 == 0 else fleet.kill_worker()
    for execution in executions:
        shown = weir.ended(execution)
        assert shown['status'] == 'COMPLETED', shown
    records = fleet.records()
    assert not _doubled(fleet), (_doubled(fleet), records)
    ended = {record['run']: record['execution'] for record in records if record['what'] in ('end', 'left')}
    for execution in executions:
        # The result is that of one run, which came to its end. A step has at most one result.
        output = weir.show(execution)['steps'][0]['output']
        assert ended.get(output) == execution, (output, [record for record in records if record['execution'] == execution])
    assert set(record['execution'] for record in records) == set(executions)
    most = _most_at_once(fleet, 'acme')
    assert 0 < most <= CAP, most


def a_worker_keeps_its_run_when_its_node_dies(weir):
    """On PostgreSQL the other node takes the execution over, and the worker finds it there. Else the node comes back."""
    _store(weir)
    _apply(weir, 'job', handler='record')
    os.mkdir(weir.path('locks'))
    fleet = Fleet(weir)
    execution = weir.enqueue('-w', 'acme', 'job', '-p', json.dumps({'until': weir.path('taken')}))
    wait_for('the run', fleet.records, pause=SHORT)
    place = int(weir.show(execution)['node'].rpartition('-')[2])
    fleet.nodes[place].kill()
    fleet.nodes[place].wait()
    if not ON_POSTGRES:
        fleet.nodes[place] = _node(weir, f'node-{place}', fleet.ports[place])
    wait_for('the takeover', lambda: weir.show(execution)['handovers'] >= 1)
    weir.write('taken', '')
    shown = weir.ended(execution)
    assert shown['status'] == 'COMPLETED' and shown['handovers'] >= 1, shown
    assert [record['what'] for record in fleet.records()] == ['begin', 'end'], fleet.records()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
