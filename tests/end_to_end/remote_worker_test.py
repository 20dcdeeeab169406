#!/usr/bin/env python3
"""Nodes of libweir on a server: workers over HTTP, with kills, lost leases, tokens, TLS and stops on the way.

usage: remote_worker_test.py BINARY [--postgres] [TEST ...]
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

from harness import run_tests
from ports import free_port
from postgres_server import PostgresServer
from remote_test import STORE, FakeServer
from waiting import SECONDS_MOST, SHORT, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, '..', 'workers', 'cases.json')
ON_POSTGRES = '--postgres' in sys.argv
TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
server = None
TASK = {'task': 'e1/only/1/7', 'execution_id': 'e1', 'workspace': 'acme', 'step': 'only', 'handler': 'job', 'attempt': 1,
        'fence': 7, 'idempotency_key': 'e1/only', 'timeout_us': None, 'traceparent': None, 'input': {}}


def _store(weir, **settings):
    lines = [f'{key}: {value}' for key, value in {'http.task_lease': '60s', 'node.lease': '2m', **settings}.items()]
    if ON_POSTGRES:
        global server
        server = server or PostgresServer()
        lines.append(f'store: {server.url(server.database())}')
    weir.write('weir.yaml', '\n'.join(lines) + '\n')
    weir.good('store', 'init', '-q')
    weir.good('workspace', 'set', 'acme', '--plan', 'pro', '-q')
    _apply(weir, 'job', handler='job')


def _apply(weir, name, **step):
    weir.write(f'{name}.yaml', json.dumps({'name': name, 'steps': {'only': step}}))
    weir.good('workflow', 'apply', f'{name}.yaml', '-q')


class Node:
    """A node with a listener; start() again has the same address."""

    def __init__(self, weir, name='node', listen=None):
        self.weir, self.name = weir, name
        self.address = listen or f'127.0.0.1:{free_port()}'
        self.url = self.address if '://' in self.address else f'http://{self.address}'
        self.start()

    def start(self):
        self.process = self.weir.spawn('serve', '--node', self.name, '--listen', self.address, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
        said = b''
        while b'http at' not in said:
            said = self.process.stderr.readline()
            assert said, 'the node has ended'
        threading.Thread(target=self.process.stderr.read, daemon=True).start()  # it must not wait for a reader

    def kill(self):
        self.process.kill()
        self.process.wait()


class Program:
    """worker_program; its lines are read by a thread."""

    def __init__(self, weir, url, *words, is_started=True, **environment):
        self.process = subprocess.Popen([os.environ['WEIR_WORKER_PROGRAM'], url, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=weir.folder,
                                        env={**weir.environment, **environment})
        weir.background.append(self.process)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if is_started:
            self.expect('started')

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(None)

    def expect(self, *words):
        """The next line begins with these; returns the other words."""
        line = self.lines.get(timeout=SECONDS_MOST)
        assert line is not None and line[:len(words)] == list(words), (words, line)
        return line[len(words):]

    def say(self, *words):
        self.process.stdin.write(' '.join(words) + '\n')
        self.process.stdin.flush()

    def complete(self, execution, output):
        """The result of a run that has begun. Where this program is late, a short lease ends, and the run begins again."""
        self.say('done', execution, output)
        line = self.expect()
        while line != ['recorded', execution, 'yes']:
            if line[0] == 'begin':
                self.say('done', execution, output)
            else:
                assert line in (['cancel', execution, 'moves'], ['recorded', execution, 'no']), line
            line = self.expect()

    def ended(self):
        return self.process.wait(SECONDS_MOST)

    def stop(self, seconds=60):
        self.say('stop', str(seconds))
        line = self.expect()
        while line[0] == 'begin':  # of a run that has ended since: its line was not read
            line = self.expect()
        name, word = line
        assert name == 'stopped', line
        assert self.ended() == 0
        return word


def _job(weir, *words):
    return weir.enqueue('-w', 'acme', 'job', *words)


def _is_completed(weir, execution, output):
    shown = weir.ended(execution)
    assert shown['status'] == 'COMPLETED' and shown['steps'][0]['output'] == output, shown
    return shown


# --- the cases of all clients ---

def _progress(weir, execution):
    shown = weir.show(execution)
    return [{key: value for key, value in report.items() if key != 'at'} for report in shown['progress']]


def a_node_on_a_server_passes_the_cases(weir):
    _store(weir)
    url = Node(weir).url
    program = Program(weir, url)
    with open(CASES) as file:
        cases = json.load(file)['cases']
    for number, case in enumerate(cases):
        _apply(weir, f'case-{number}', handler='scripted', **case.get('workflow', {}))
        execution = weir.enqueue('-w', 'acme', f'case-{number}', '-p', json.dumps({'acts': case['acts']}))
        if 'progress' in case:
            report = [{'step': 'only', 'attempt': 1, **case['progress']}]
            wait_for('the progress', lambda: _progress(weir, execution) == report, pause=SHORT)
        if case.get('cancel'):
            wait_for('the run', lambda: program.expect('begin') == [execution], pause=SHORT)
            weir.good('cancel', execution, '-q')
        began = time.monotonic()
        if case.get('stop'):
            wait_for('the run', lambda: program.expect('begin') == [execution], pause=SHORT)
            assert program.stop(0) == 'interrupted'
            program = Program(weir, url)
        shown = weir.ended(execution)
        assert not case.get('stop') or time.monotonic() - began < 20, time.monotonic() - began
        step, = shown['steps']
        expected = case['expect']
        assert shown['status'] == expected['status'], (case['name'], shown)
        assert shown['error_code'] == expected.get('error_code'), (case['name'], shown)
        for key in ('attempt', 'failures', 'output'):
            assert key not in expected or step[key] == expected[key], (case['name'], shown)
    assert program.stop() == 'graceful'


def logs_and_the_trace_context_travel_with_the_task(weir):
    _store(weir)
    program = Program(weir, Node(weir).url)
    execution = _job(weir, '--traceparent', TRACEPARENT)
    attempt, _, traceparent, _ = program.expect('begin', execution)
    assert attempt == '1' and traceparent.split('-')[1] == TRACEPARENT.split('-')[1], traceparent

    def log():
        return weir.run('logs', execution).out

    program.say('log', execution, 'half way')
    wait_for('the log of a run', lambda: 'half way' in log())
    program.say('log', execution, 'at the end')
    program.say('log', execution, 'x' * 66000)  # more than a worker keeps
    program.say('done', execution, '{"n": 1}')
    program.expect('recorded', execution, 'yes')
    _is_completed(weir, execution, {'n': 1})
    text = log()
    assert text.count('half way') == text.count('at the end') == text.count('are left out') == 1, text[-300:]
    assert 65536 - 100 < text.count('x') <= 65536, (text.count('x'), text[-300:])
    program.stop()


# --- nodes and workers that die ---

def a_run_outlives_the_death_of_its_server(weir):
    _store(weir, **{'http.task_lease': '20s'})
    node = Node(weir)
    program = Program(weir, node.url)
    execution = _job(weir)
    program.expect('begin', execution)
    node.kill()
    node.start()
    wait_for('the takeover', lambda: weir.show(execution)['handovers'] >= 1)
    program.say('done', execution, '"kept"')
    program.expect('recorded', execution, 'yes')
    _is_completed(weir, execution, 'kept')
    execution = _job(weir)  # it claims again
    program.expect('begin', execution)
    program.say('done', execution, '2')
    program.expect('recorded', execution, 'yes')
    program.stop()


def a_result_of_a_time_without_a_server_is_reported_later(weir):
    """One place: the worker has none for a claim, and makes its handlers known all the same."""
    _store(weir, **{'http.task_lease': '20s'})
    node = Node(weir)
    program = Program(weir, node.url, '1')
    execution = _job(weir)
    program.expect('begin', execution)
    node.kill()
    program.say('done', execution, '"late"')
    node.start()
    program.expect('recorded', execution, 'yes')
    _is_completed(weir, execution, 'late')
    program.stop()


def a_worker_moves_on_to_the_next_server(weir):
    """On SQLite the second server has the same store only after the first one has died: a file has one node."""
    _store(weir, **{'http.task_lease': '20s'})
    nodes = [Node(weir, 'first')]
    if ON_POSTGRES:
        nodes.append(Node(weir, 'second'))
    addresses = [nodes[0].address, nodes[1].address if ON_POSTGRES else f'127.0.0.1:{free_port()}']
    program = Program(weir, f'http://{",".join(addresses)}')
    execution = _job(weir)
    program.expect('begin', execution)
    place = 1 if weir.show(execution)['node'] == 'second' else 0
    nodes[place].kill()
    if not ON_POSTGRES:
        nodes.append(Node(weir, 'second', addresses[1]))
    wait_for('the takeover', lambda: weir.show(execution)['handovers'] >= 1)
    program.say('done', execution, '"moved"')
    program.expect('recorded', execution, 'yes')
    _is_completed(weir, execution, 'moved')
    execution = _job(weir)
    program.expect('begin', execution)
    program.say('done', execution, '2')
    program.expect('recorded', execution, 'yes')
    program.stop()


def the_tasks_of_a_killed_worker_are_given_to_another(weir):
    _store(weir, **{'http.task_lease': '2s'})
    node = Node(weir)
    first = Program(weir, node.url)
    execution = _job(weir)
    first.expect('begin', execution)
    first.process.kill()
    second = Program(weir, node.url)
    attempt = second.expect('begin', execution)[0]
    assert int(attempt) > 1, attempt
    second.complete(execution, '2')
    _is_completed(weir, execution, 2)
    second.stop()


def a_worker_that_was_stopped_past_its_lease_has_lost_its_task(weir):
    _store(weir, **{'http.task_lease': '15s'})  # short enough to wait for, long enough for a machine that is busy
    node = Node(weir)
    first = Program(weir, node.url)
    execution = _job(weir)
    first.expect('begin', execution)
    first.process.send_signal(signal.SIGSTOP)
    second = Program(weir, node.url)
    second.expect('begin', execution)
    first.process.send_signal(signal.SIGCONT)
    first.expect('cancel', execution, 'moves')
    first.say('done', execution, '"too late"')
    first.expect('recorded', execution, 'no')
    second.say('done', execution, '"in time"')
    second.expect('recorded', execution, 'yes')
    _is_completed(weir, execution, 'in time')
    first.stop()
    second.stop()


def a_cancel_reaches_the_run(weir):
    _store(weir)
    program = Program(weir, Node(weir).url)
    execution = _job(weir)
    program.expect('begin', execution)
    weir.good('cancel', execution, '-q')
    program.expect('cancel', execution, 'wanted')
    program.say('done', execution, '1')
    program.expect('recorded', execution, 'yes')  # the end of the attempt
    assert weir.ended(execution)['status'] == 'CANCELLED'
    program.stop()


def an_interrupted_run_begins_again_when_its_lease_is_over(weir):
    _store(weir, **{'http.task_lease': '15s'})
    program = Program(weir, Node(weir).url)
    execution = _job(weir)
    program.expect('begin', execution)
    program.say('interrupted', execution)
    program.expect('recorded', execution, 'no')
    assert int(program.expect('begin', execution)[0]) == 2
    program.say('done', execution, '2')
    program.expect('recorded', execution, 'yes')
    assert _is_completed(weir, execution, 2)['steps'][0]['failures'] == 0
    program.stop()


# --- stops ---

def a_stop_awaits_the_runs_and_claims_nothing(weir):
    """The lease is a minute long: a task that a stopped worker had claimed would be missing for as long."""
    _store(weir, **{'http.task_lease': '60s'})
    node = Node(weir)
    first = Program(weir, node.url)
    execution = _job(weir)
    first.expect('begin', execution)
    first.say('stop', '60')
    second = Program(weir, node.url)
    other = _job(weir)
    second.expect('begin', other)
    os.kill(first.process.pid, 0)
    first.process.stdin.close()  # the program reads no more before its end
    weir.good('cancel', execution, '-q')
    second.say('done', other, '2')
    second.expect('recorded', other, 'yes')
    second.stop()


def a_stop_interrupts_what_goes_on(weir):
    _store(weir, **{'http.task_lease': '5s'})
    node = Node(weir)
    first = Program(weir, node.url)
    execution = _job(weir)
    first.expect('begin', execution)
    first.say('stop', '0')
    first.expect('cancel', execution, 'moves')
    first.process.kill()
    second = Program(weir, node.url)
    second.expect('begin', execution)
    second.complete(execution, '2')
    second.stop()


# --- orders of the program ---

def a_paused_node_claims_nothing(weir):
    _store(weir, **{'http.task_lease': '15s'})  # with it the handlers of a worker that claims nothing end
    program = Program(weir, Node(weir).url)
    first = _job(weir)
    program.expect('begin', first)
    program.say('pause', '-')
    program.expect('ordered', 'pause', 'ok')
    program.say('done', first, '1')
    program.expect('recorded', first, 'yes')
    second = _job(weir)
    wait_for('the reason', lambda: weir.good('why', second, '--json').json().get('handlers_missing') == ['job'])
    program.say('resume', '-')
    program.expect('ordered', 'resume', 'ok')
    program.expect('begin', second)
    program.say('done', second, '2')
    program.expect('recorded', second, 'yes')
    program.stop()


def a_handler_comes_and_goes_while_the_node_runs(weir):
    _store(weir)
    program = Program(weir, Node(weir).url)
    program.say('unregister', 'job')
    program.expect('ordered', 'unregister', 'ok')
    wait_for('the other handlers', lambda: [row['handlers'] for row in weir.items('worker', 'list')] == [['scripted']])
    program.say('unregister', 'job')
    program.expect('ordered', 'unregister', 'not_found')
    execution = _job(weir)
    program.say('register', 'job')
    program.expect('ordered', 'register', 'ok')
    program.expect('begin', execution)
    program.say('done', execution, '1')
    program.expect('recorded', execution, 'yes')
    program.stop()


def what_a_node_on_a_server_cannot_do_is_refused_in_words(weir):
    _store(weir)
    program = Program(weir, Node(weir).url, 'refusals', is_started=False)
    for status, text in (('invalid_argument', 'runs handlers alone'),) * 3 + (
            ('invalid_argument', 'at most 64 handlers'), ('invalid_argument', '1 to 128 bytes'),
            ('invalid_argument', '1 to 128 bytes'), ('invalid_argument', '1 to 64 bytes'), ('invalid_argument', 'UTF-8'),
            ('misuse', 'weir_node_start')):
        line = ' '.join(program.expect('refused', status))
        assert text in line, line
    program.expect('stopped', 'ok', 'graceful')
    assert program.ended() == 0


# --- tokens and TLS ---

def _token(weir, name, *words):
    return weir.good('token', 'create', name, *words, '-q').out.strip()


def a_wrong_token_is_refused_when_the_store_is_opened(weir):
    _store(weir)
    _token(weir, 'any', '--role', 'read', '--all-workspaces')
    node = Node(weir)
    for environment in ({}, {'WEIR_TOKEN': 'weir_wrong'}):
        program = Program(weir, node.url, is_started=False, **environment)
        line = ' '.join(program.expect('error', 'not_permitted'))
        assert 'WEIR_TOKEN' in line and 'weir_wrong' not in line, line
        assert program.ended() == 1


def a_token_without_the_role_ends_the_worker(weir):
    _store(weir)
    token = _token(weir, 'reader', '--role', 'read', '--all-workspaces')
    program = Program(weir, Node(weir).url, WEIR_TOKEN=token)
    line = ' '.join(program.expect('error', 'not_permitted'))
    assert 'operate' in line, line
    assert program.ended() == 1


def a_revoked_token_ends_the_worker(weir):
    _store(weir)
    token = _token(weir, 'worker', '--role', 'operate', '--all-workspaces')
    _token(weir, 'other', '--role', 'read', '--all-workspaces')
    program = Program(weir, Node(weir).url, WEIR_TOKEN=token)
    execution = _job(weir)
    program.expect('begin', execution)
    program.say('done', execution, '1')
    program.expect('recorded', execution, 'yes')
    weir.good('token', 'revoke', 'worker', '-q')
    program.expect('error', 'not_permitted')
    assert program.ended() == 1


def a_server_with_tls_is_known_by_its_authority(weir):
    _store(weir)
    for name, signer in (('authority', ''), ('server', 'authority')):
        alternative = 'IP:127.0.0.1' if signer else ''
        subprocess.run([os.environ['WEIR_MAKE_CERTIFICATE'], weir.folder, name, signer, alternative, '-60', '3600'],
                       check=True)
        os.chmod(weir.path(f'{name}.key'), 0o600)
    with open(weir.path('weir.yaml'), 'a') as file:
        file.write('http.tls:\n  certificate_file: server.pem\n  key_file: server.key\n')
    token = _token(weir, 'worker', '--role', 'operate', '--all-workspaces')
    os.chmod(weir.write('token', token + '\n'), 0o600)
    node = Node(weir, listen=f'https://127.0.0.1:{free_port()}')
    stranger = Program(weir, node.url, is_started=False, WEIR_TOKEN=token)
    assert 'certificate' in stranger.expect('error', 'store_unreachable')
    program = Program(weir, node.url, WEIR_TOKEN_FILE='token', WEIR_CA_FILE='authority.pem')
    execution = _job(weir)
    program.expect('begin', execution)
    program.say('done', execution, '"sealed"')
    program.expect('recorded', execution, 'yes')
    _is_completed(weir, execution, 'sealed')
    program.stop()


# --- servers that answer as no node does ---

class Tasks:
    """A server that has one task, and answers reports as told."""

    def __init__(self, claim=None, lease_us=600000000, **answers):
        self.claims, self.claim, self.lease_us, self.answers = 0, claim, lease_us, answers
        self.server = FakeServer(self.answer)

    def answer(self, head, body):
        verb = head.split()[1].rpartition(':')[2]
        if verb == 'claim':
            self.claims += 1
            return 200, self.claim or json.dumps({'tasks': [TASK] if self.claims == 1 else [], 'lease_us': self.lease_us,
                                                  'waited_us': 0}).encode()
        return self.answers.get(verb, (200, STORE))


def _verdict(name, status=200):
    if status == 200:
        return 200, json.dumps({'tasks': [{'task': TASK['task'], 'verdict': name}]}).encode()
    return status, b'{"type":"x","title":"x","status":%d,"code":"%s","detail":"as told"}' % (status, name.encode())


def a_lost_fence_ends_the_run_without_a_report(weir):
    with Tasks(heartbeat=_verdict('task_lost', 409)).server as fake:
        program = Program(weir, fake.url)
        program.expect('begin', 'e1')
        program.say('log', 'e1', 'the heartbeat that carries it comes long before the end of the lease')
        program.expect('cancel', 'e1', 'moves')
        program.say('done', 'e1', '1')
        program.expect('recorded', 'e1', 'no')
        assert not [head for head in fake.heads if 'tasks:complete' in head], fake.heads
        assert program.stop() == 'graceful'


def a_report_under_a_lost_fence_is_not_recorded(weir):
    tasks = Tasks(heartbeat=_verdict('accepted'), complete=_verdict('task_lost', 409))
    with tasks.server as fake:
        program = Program(weir, fake.url)
        program.expect('begin', 'e1')
        program.say('done', 'e1', '1')
        program.expect('recorded', 'e1', 'no')
        assert len([head for head in fake.heads if 'tasks:complete' in head]) == 1, fake.heads
        program.stop()


def a_result_that_the_server_refuses_fails_the_step(weir):
    tasks = Tasks(heartbeat=_verdict('accepted'), complete=_verdict('body_too_large', 413), fail=_verdict('accepted'))
    with tasks.server as fake:
        program = Program(weir, fake.url)
        program.expect('begin', 'e1')
        program.say('done', 'e1', '1')
        program.expect('recorded', 'e1', 'yes')
        assert [head for head in fake.heads if 'tasks:fail' in head], fake.heads
        program.stop()


def an_unanswered_report_ends_with_the_lease(weir):
    tasks = Tasks(heartbeat=None, complete=None, lease_us=15000000)
    with tasks.server as fake:
        program = Program(weir, fake.url)
        program.expect('begin', 'e1')
        program.say('done', 'e1', '1')
        program.expect('recorded', 'e1', 'no')
        assert len([head for head in fake.heads if 'tasks:complete' in head]) > 1, fake.heads
        program.stop()


def an_answer_that_is_none_ends_the_worker(weir):
    part = {key: value for key, value in TASK.items() if key != 'fence'}
    with contextlib.ExitStack() as stack:
        programs = []
        for claim in ({'tasks': [part], 'lease_us': 3000000, 'waited_us': 0},
                      {'tasks': [TASK], 'lease_us': 1, 'waited_us': 0}, {'tasks': 1, 'lease_us': 3000000}, {}):
            fake = stack.enter_context(Tasks(json.dumps(claim).encode()).server)
            programs.append(Program(weir, fake.url))
        for program in programs:  # when it has lasted for a lease
            program.expect('error', 'store_not_weir')
            assert program.ended() == 1


class Claims:
    """Servers that answer the claims of a worker in this order, whichever is asked, the last answer again and again. The
    second claim waits for may_go_on."""

    def __init__(self, weir, servers, *answers):
        self.weir = weir
        self.answers, self.bodies, self.may_go_on, self.second = list(answers), [], threading.Event(), threading.Event()
        self.fakes = [FakeServer(self.answer) for _ in range(servers)]
        self.url = 'http://' + ','.join(fake.url.removeprefix('http://') for fake in self.fakes)

    def __enter__(self):
        self.program = Program(self.weir, self.url, is_started=False)
        return self

    def __exit__(self, *_):
        self.may_go_on.set()
        self.program.process.kill()  # it keeps its connections
        for fake in self.fakes:
            fake.__exit__()

    def answer(self, head, body):
        verb = head.split()[1].rpartition(':')[2]
        if verb != 'claim':
            return (200, STORE) if verb not in ('heartbeat', 'complete') else _verdict('accepted')
        self.bodies.append(json.loads(body))
        if len(self.bodies) == 2:
            self.second.set()
            self.may_go_on.wait(SECONDS_MOST)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _claimed(*tasks, **members):
    return 200, json.dumps({'tasks': tasks, 'lease_us': 60000000, 'waited_us': 0, **members}).encode()


def a_refusal_ends_the_worker_only_when_no_server_accepts_it(weir):
    """A proxy in front of a server that starts, and a server without the executor group."""
    for servers, refusal in ((1, (404, b'<html>')), (1, (500, b'<html>')), (2, _verdict('not_found', 404))):
        with Claims(weir, servers, refusal, _claimed(TASK), _claimed()) as claims:
            program = claims.program
            program.expect('started')
            assert claims.second.wait(SECONDS_MOST)
            for _ in range(2):  # it looks at the health before each line
                program.say('resume', '-')
                program.expect('ordered', 'resume', 'ok')
            claims.may_go_on.set()
            program.expect('begin', 'e1')
            program.say('done', 'e1', '1')
            program.expect('recorded', 'e1', 'yes')
            assert [body['wait_us'] > 0 for body in claims.bodies[:2]] == [True, False], claims.bodies
            program.stop()


def a_refusal_of_all_servers_ends_the_worker(weir):
    with Claims(weir, 2, _verdict('not_found', 404)) as claims:
        claims.may_go_on.set()
        program = claims.program
        wait_for('the end', lambda: program.lines.get(timeout=SECONDS_MOST)[:2] == ['error', 'not_found'])
        assert program.ended() == 1 and all(any('claim' in head for head in fake.heads) for fake in claims.fakes)


def the_time_left_counts_from_the_answer_to_the_claim(weir):
    hour = 3600000000
    with Claims(weir, 1, _claimed({**TASK, 'timeout_us': hour}, waited_us=hour), _claimed()) as claims:
        claims.may_go_on.set()
        program = claims.program
        program.expect('started')
        left = int(program.expect('begin', 'e1')[3])
        program.say('done', 'e1', '1')
        program.expect('recorded', 'e1', 'yes')
        program.stop()
        assert hour < left <= 2 * hour, left


def a_server_that_is_down_is_named(weir):
    url = f'http://127.0.0.1:{free_port()}'
    program = Program(weir, url, is_started=False)
    line = ' '.join(program.expect('error', 'store_unreachable'))
    assert url in line and 'weir serve --listen' in line, line
    assert program.ended() == 1


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
