#!/usr/bin/env python3
"""Functions that answer 202 and report later: without a slot, before the answer, at a timeout, and around killed nodes.

A node of the executor group `door` has the HTTP listener and runs nothing, so that a test may kill the other one.

usage: callbacks_test.py BINARY [--postgres] [TEST ...]
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading

from harness import run_tests
from http_client import Listener, problem
from http_steps_test import ALLOWED, Server
from postgres_server import PostgresServer, client_program
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
# A node registers with some commits. The start of the step, its wait, the park and its end are some records.
KILL_POINTS = {'before_step_report': (1,), 'before_record': (1, 2, 3), 'after_record': (1, 2, 3),
               'before_commit': (4, 6, 8), 'after_commit': (4, 6)}


class Function:
    """A server that accepts work, and has the tokens of its requests. `answer` may be replaced."""

    def __init__(self):
        self.answer = lambda request: (202, {}, b'later')
        self.server = Server(lambda request: self.answer(request))

    def tokens(self):
        return [request['headers'].get('Weir-Callback') for request in self.server.requests]

    def attempts(self):
        return [request['headers']['Weir-Attempt'] for request in self.server.requests]

    def token(self, count=1):
        """The token of the newest of `count` requests."""
        wait_for(f'{count} requests', lambda: len(self.server.requests) >= count, pause=SHORT)
        return self.tokens()[count - 1]


def _scene(weir, callback='1h', **step):
    """Workspace tiny has one slot. `work` calls the function, and prints what it has reported."""
    global SERVER
    if POSTGRES:
        SERVER = SERVER or PostgresServer()
        weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())
    weir.make_store()
    weir.write('weir.yaml', f'http_step.allow: [{ALLOWED}]\ndispatch.poll_interval: 100ms\n')
    function = Function()
    steps = {'call': {'http': {'url': function.server.url, 'method': 'POST', 'callback': callback}, **step},
             'tell': {'needs': ['call'], 'exec': ['printf', '%s', '${.steps.call.output.total}']}}
    weir.write('work.json', json.dumps({'name': 'work', 'steps': steps}))
    weir.good('workflow', 'apply', 'work.json', '-q')
    return function, Listener(weir, '--executor-group', 'door')


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _await(weir, id, status):
    return wait_for(lambda: f'{status}: {weir.show(id)}',
                    lambda: weir.show(id) if weir.show(id)['status'] == status else None, pause=SHORT)


def _report(door, token, verb='complete', **body):
    return door.ask(f'/v1/callbacks:{verb}', 'POST', body={'callback': token, **body})


def _output(shown, step='tell'):
    return [row['output'] for row in shown['steps'] if row['step'] == step]


def a_function_reports_while_the_execution_uses_no_slot(weir):
    function, door = _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    shown = _await(weir, id, 'WAITING')
    assert shown['waiting_for'] == 'callback' and shown['due_at'] is not None, shown
    assert weir.ended(weir.enqueue('-w', 'tiny', 'hello'))['status'] == 'COMPLETED'
    assert [item['id'] for item in weir.items('list', '--where', 'waiting_for=callback')] == [id]
    why = weir.good('why', id).out
    assert 'waits for the report of its function since ' in why and 'callback:' not in why, why
    token = function.token()
    answer = _report(door, token, output={'total': 7, 'list': [1, None]})
    assert (answer.status, answer.json()) == (202, {'id': id, 'duplicate': False}), answer
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _output(shown) == [7], shown
    assert _output(shown, 'call') == [{'total': 7, 'list': [1, None]}] and function.attempts() == ['1'], shown
    assert _report(door, token, output={'total': 7, 'list': [1, None]}).json()['duplicate'] is True
    problem(_report(door, token, output={'total': 8}), 409, 'conflict')
    problem(_report(door, token, 'fail'), 409, 'conflict')
    assert [(row['seq'], row['step']) for row in shown['signals']] == [(1, 'call')], shown
    assert token.split('.')[1] not in json.dumps(shown) + weir.good('logs', id).out + weir.good('audit').out
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def a_report_of_the_command_line_counts(weir):
    """On the store itself, and through a server."""
    function, door = _scene(weir, retry={'attempts': 3, 'backoff': '10ms'})
    _node(weir, WEIR_HTTP_STEP_CALLBACK_ADDRESS='https://weir.example.com/')
    id = weir.enqueue('-w', 'tiny', 'work')
    _await(weir, id, 'WAITING')
    headers = function.server.requests[0]['headers']
    assert headers['Weir-Callback-Url'] == 'https://weir.example.com/v1/callbacks', headers
    server = ('--store', f'http://127.0.0.1:{door.port}')
    weir.write('token', function.token() + '\n')
    assert weir.good('callback', 'complete', '@token', '--dry-run', '--json').json()['id'] == id
    assert weir.show(id)['status'] == 'WAITING'
    failed = weir.good('callback', 'fail', '@token', '--error-code', 'disk_full', '--json').json()
    assert (failed['id'], failed['duplicate']) == (id, False), failed
    token = function.token(2)
    weir.write('token', token)
    _await(weir, id, 'WAITING')
    for duplicate in (False, True):
        sent = weir.good('callback', 'complete', '@token', '--result', '{"total": 9}', '--json', *server).json()
        assert (sent['id'], sent['duplicate']) == (id, duplicate), sent
    assert weir.good('callback', 'complete', '@token', '--result', '{"total":9}', '--json').json()['duplicate'] is True
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _output(shown) == [9], shown
    assert weir.run('callback', 'complete', '@token', '--result', '1', *server).code == 4
    assert weir.run('callback', 'complete', 'wrong').code == 3 and weir.run('callback', 'fail', 'wrong', *server).code == 3
    too_large = weir.run('callback', 'complete', '@token', '--result', json.dumps('x' * 65000))
    assert too_large.code == 2 and 'store the data elsewhere' in too_large.err and token not in too_large.err, too_large


def without_its_setting_a_request_names_no_address(weir):
    function, door = _scene(weir)
    _node(weir)
    weir.enqueue('-w', 'tiny', 'work')
    assert function.token() and 'Weir-Callback-Url' not in function.server.requests[0]['headers']
    refused = weir.run('serve', env={'WEIR_HTTP_STEP_CALLBACK_ADDRESS': 'weir.example.com'})
    assert refused.code != 0 and 'http_step.callback_address: "weir.example.com" is no address' in refused.err, refused


def an_output_that_is_too_large_is_refused_in_words(weir):
    """The attempt goes on, and a smaller report ends it."""
    function, door = _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    token = function.token()
    for size in (63 * 1024 - 1, 70 * 1024, 300 * 1024):
        refused = _report(door, token, output='x' * size)
        assert refused.status in (400, 413), (size, refused)
        assert '64512' in refused.json()['detail'] or refused.status == 413, refused
    assert _report(door, token, output={'total': 'x' * 60000}).status == 202
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and len(_output(shown)[0]) == 60000, shown['status']


def a_finally_with_a_callback_waits_for_its_report(weir):
    """Of an execution that fails: the report of its last step decides nothing else."""
    function, door = _scene(weir)
    steps = {'name': 'tidy', 'steps': {'break': {'exec': ['sh', '-c', 'exit 3']}},
             'finally': {'call': {'http': {'url': function.server.url, 'method': 'POST', 'callback': '1h'}}}}
    weir.write('tidy.yaml', json.dumps(steps))
    weir.good('workflow', 'apply', 'tidy.yaml', '-q')
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'tidy')
    assert _await(weir, id, 'WAITING')['waiting_for'] == 'callback'
    assert _report(door, function.token(), output={'done': 1}).status == 202
    shown = weir.ended(id)
    assert (shown['status'], shown['error_code']) == ('FAILED', 'exit_3'), shown
    assert _output(shown, 'call') == [{'done': 1}], shown


def a_secret_that_changes_while_a_step_waits_counts_for_the_next_request(weir):
    """A report that echoes the value of that time is hidden no more than any other text; the present one is."""
    function, door = _scene(weir, retry={'attempts': 2, 'backoff': '10ms'}, secrets={'X-Key': 'pay-key'})
    folder = weir.path('secrets')
    os.makedirs(folder, exist_ok=True)
    weir.write('secrets/pay-key', 'first-value-1')
    _node(weir, WEIR_SECRETS_DIRECTORY=folder)
    id = weir.enqueue('-w', 'tiny', 'work')
    _await(weir, id, 'WAITING')
    weir.write('secrets/pay-key', 'second-value-2')
    assert _report(door, function.token(), 'fail', error='again').status == 202
    function.token(2)
    assert [request['headers']['X-Key'] for request in function.server.requests] == ['first-value-1', 'second-value-2']
    _await(weir, id, 'WAITING')
    assert _report(door, function.token(2), output={'total': 'it was second-value-2'}).status == 202
    shown = weir.ended(id)
    assert _output(shown) == ['it was ***'], shown


def a_report_before_the_answer_counts(weir):
    function, door = _scene(weir)
    answers = []

    def report_first(request):
        answers.append(_report(door, request['headers']['Weir-Callback'], output={'total': 1}).status)
        return 202, {}, b''

    function.answer = report_first
    _node(weir)
    shown = weir.ended(weir.enqueue('-w', 'tiny', 'work'))
    assert shown['status'] == 'COMPLETED' and _output(shown) == [1] and answers == [202], (shown, answers)
    assert function.attempts() == ['1'], shown
    # Where the answer is on record before the node has read of the report, the wait ends as it begins.
    parks = [event['at'] for event in shown['events'] if event['event'] == 'park']
    assert parks == [event['at'] for event in shown['events'] if event['event'] == 'wake'], shown


def a_report_outlives_a_lost_answer(weir):
    function, door = _scene(weir, retry={'attempts': 3, 'backoff': '1h'})
    answers = []

    def report_and_break(request):
        answers.append(_report(door, request['headers']['Weir-Callback'], output={'total': 2}).status)
        return 200, {}, lambda handler: handler.connection.close()

    function.answer = report_and_break
    _node(weir)
    shown = weir.ended(weir.enqueue('-w', 'tiny', 'work'))
    assert shown['status'] == 'COMPLETED' and _output(shown) == [2] and answers == [202], (shown, answers)
    assert function.attempts() == ['1'], shown


def an_answer_with_a_result_is_the_end(weir):
    function, door = _scene(weir)
    function.answer = lambda request: (200, {'Content-Type': 'application/json'}, b'{"total": 3}')
    _node(weir)
    shown = weir.ended(weir.enqueue('-w', 'tiny', 'work'))
    assert shown['status'] == 'COMPLETED' and _output(shown) == [3], shown
    problem(_report(door, function.token(), output={'total': 4}), 404, 'not_found')


def a_failure_is_tried_again_or_final(weir):
    function, door = _scene(weir, retry={'attempts': 3, 'backoff': '10ms'})
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    first = function.token()
    assert _report(door, first, 'fail', error_code='disk_full', error='no room').status == 202
    second = function.token(2)
    assert second != first and function.attempts() == ['1', '2'], function.attempts()
    problem(_report(door, first, output={'total': 9}), 409, 'conflict')
    assert _report(door, second, 'fail', error_code='no_such_order', error='42', retry=False).status == 202
    shown = weir.ended(id)
    assert shown['status'] == 'FAILED' and (shown['error_code'], shown['error']) == ('no_such_order', '42'), shown
    assert [row['error_code'] for row in shown['earlier_attempts']] == ['disk_full'], shown
    assert function.attempts() == ['1', '2']


def without_a_report_the_attempt_fails(weir):
    function, door = _scene(weir, callback='1500ms', retry={'attempts': 2, 'backoff': '10ms'})
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    first, second = function.token(), function.token(2)
    problem(_report(door, first, output={'total': 9}), 404, 'not_found')  # a later attempt has begun
    shown = weir.ended(id)
    assert shown['status'] == 'FAILED' and shown['error_code'] == 'callback_timeout', shown
    problem(_report(door, second, output={'total': 9}), 404, 'not_found')
    keys = {request['headers']['Idempotency-Key'] for request in function.server.requests}
    assert function.attempts() == ['1', '2'] and keys == {f'{id}-call'}, keys


def a_wrong_report_changes_nothing(weir):
    function, door = _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    token = function.token()
    _await(weir, id, 'WAITING')
    own, secret = token.split('.')
    wrong = [token[:-1], token + 'x', own, secret, '', f'{own}.{secret[:-1]}A', f'{own}.weir_{"A" * 43}', f'x{token[1:]}',
             f'00000000-0000-7000-8000-000000000000.{secret}', f'{own}.{secret}\n', '%' * 85]
    for text in wrong:
        if text != token:
            problem(_report(door, text, output={'total': 9}), 404, 'not_found')
    refused = problem(_report(door, token, output='x' * 70000), 400, 'invalid_argument')
    assert refused['errors'][0]['pointer'] == '/output', refused
    problem(_report(door, token, outptu=1), 400, 'invalid_argument')
    problem(_report(door, None, output=1), 400, 'invalid_argument')
    problem(_report(door, token, 'fail', error_code='x' * 65), 400, 'invalid_argument')
    problem(_report(door, token, 'fail', error_code=''), 400, 'invalid_argument')
    name = f'callback:call:1:{"0" * 32}'
    assert weir.run('signal', id, name, '--data', '{"output":{"total":9}}').code == 2
    assert weir.show(id)['status'] == 'WAITING' and weir.show(id)['signals'] == []
    for _ in range(40):  # many functions may share the address of a proxy
        problem(_report(door, f'{own}.weir_{"B" * 43}', output=1), 404, 'not_found')
    assert door.ask('/v1/executions', authorization=f'Bearer weir_{"B" * 43}').status == 401
    assert _report(door, token, output={'total': 5}).status == 202
    assert _output(weir.ended(id)) == [5]


@contextlib.contextmanager
def _writer_held(weir, id):
    """Another connection holds the writer of SQLite, or the row of the execution on PostgreSQL."""
    if POSTGRES:
        psql = subprocess.Popen([client_program('psql'), '-qXAt', weir.environment['WEIR_STORE']], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        weir.background.append(psql)
        psql.stdin.write(f"BEGIN; SELECT id FROM weir.workflow_execution_queue WHERE id = '{id}' FOR UPDATE;\n")
        psql.stdin.flush()
        assert psql.stdout.readline().strip() == id
        yield
        psql.communicate('ROLLBACK;\n')
    else:
        with contextlib.closing(weir.database()) as database:
            database.execute('BEGIN IMMEDIATE')
            yield
            database.execute('ROLLBACK')


def a_wrong_token_waits_for_no_lock(weir):
    function, door = _scene(weir)
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    token = function.token()
    _await(weir, id, 'WAITING')
    node.send_signal(signal.SIGTERM)
    node.wait()
    with _writer_held(weir, id):
        for wrong in (f'{id}.weir_{"A" * 43}', f'00000000-0000-7000-8000-000000000000.weir_{"A" * 43}'):
            problem(_report(door, wrong, output=1), 404, 'not_found')
        assert _report(door, token, output=1).status == 503  # as any write
    assert _report(door, token, output=1).status == 202


def a_secret_that_the_function_reports_is_hidden(weir):
    function, door = _scene(weir)
    os.mkdir(weir.path('secrets'))
    os.chmod(weir.write('secrets/key', 'canary-secret-7f\n'), 0o600)
    weir.write('weir.yaml', f'http_step.allow: [{ALLOWED}]\ndispatch.poll_interval: 100ms\nsecrets.directory: secrets\n')
    step = {'http': {'url': function.server.url, 'method': 'POST', 'callback': '1h', 'bearer': 'key'}}
    weir.write('keyed.json', json.dumps({'name': 'keyed', 'steps': {'call': step}}))
    weir.good('workflow', 'apply', 'keyed.json', '-q')
    _node(weir)
    ids = [weir.enqueue('-w', 'tiny', 'keyed')]
    assert _report(door, function.token(), output={'seen': 'Bearer canary-secret-7f'}).status == 202
    assert _output(weir.ended(ids[0]), 'call') == [{'seen': 'Bearer ***'}]
    ids.append(weir.enqueue('-w', 'tiny', 'keyed'))
    refused = {'error_code': 'canary-secret-7f', 'error': 'no Bearer canary-secret-7f\x1b', 'retry': False}
    assert _report(door, function.token(2), 'fail', **refused).status == 202
    shown = weir.ended(ids[1])
    assert (shown['error_code'], shown['error']) == ('***', 'no Bearer ***?'), shown
    for id in ids:
        assert 'canary' not in weir.good('show', id, '--json').out + door.ask(f'/v1/executions/{id}').body.decode()


def reports_at_the_same_time_count_once(weir):
    function, door = _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    token = function.token()
    _await(weir, id, 'WAITING')
    answers = []

    def report(total):
        answers.append((total, _report(door, token, output={'total': total})))

    threads = [threading.Thread(target=report, args=(total,)) for total in (1, 2) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = {total for total, answer in answers if answer.status == 202}
    assert len(taken) == 1 and sorted(answer.status for _, answer in answers) == [202] * 4 + [409] * 4, answers
    assert [answer.json()['duplicate'] for _, answer in answers if answer.status == 202].count(False) == 1, answers
    assert _output(weir.ended(id)) == list(taken)


def a_listener_that_is_killed_around_a_report_takes_it_once(weir):
    function, door = _scene(weir)
    _node(weir)
    hit = set()  # kills around the commit of the first report: the start of a listener and its heartbeats commit, too
    places = itertools.product(('before_commit', 'after_commit'), ('complete', 'fail'), range(2, 8))
    for count, (point, verb, number) in enumerate(places):
        id = weir.enqueue('-w', 'tiny', 'work')
        token = function.token(count + 1)
        _await(weir, id, 'WAITING')
        body = {'output': {'total': count}} if verb == 'complete' else {'error_code': 'gone', 'retry': False}
        weir.environment['WEIR_FAILPOINT'] = f'{point}:kill:{number}'
        answers = []
        with contextlib.suppress(AssertionError, AttributeError, OSError):  # it is killed
            dying = Listener(weir, '--executor-group', 'door', output='dying')
            while dying.process.poll() is None:
                answers.append(_report(dying, token, verb, **body).status)
        del weir.environment['WEIR_FAILPOINT']
        reported = _report(door, token, verb, **body)
        assert reported.status == 202 and set(answers) <= {202}, (point, verb, number, answers, reported)
        if not answers and reported.json()['duplicate'] is (point == 'after_commit'):
            hit.add((point, verb))
        shown = weir.ended(id)
        assert shown['status'] == ('COMPLETED' if verb == 'complete' else 'FAILED') and len(shown['signals']) == 1, shown
    assert hit


def an_answer_202_of_another_origin_ends_the_step(weir):
    function, door = _scene(weir)
    other = Server(lambda request: (202, {}, b''))
    function.answer = lambda request: (307, {'Location': other.url}, b'')
    step = {'http': {'url': function.server.url, 'method': 'POST', 'callback': '1h', 'redirects': 1}}
    weir.write('moved.json', json.dumps({'name': 'moved', 'steps': {'call': step}}))
    weir.good('workflow', 'apply', 'moved.json', '-q')
    _node(weir)
    shown = weir.ended(weir.enqueue('-w', 'tiny', 'moved'))
    assert shown['status'] == 'FAILED' and shown['error_code'] == 'http_202', shown
    assert [request['headers'].get('Weir-Callback') for request in other.requests] == [None]
    function.answer = lambda request: (307, {'Location': '/there'}, b'') if request['path'] == '/' else (202, {}, b'')
    id = weir.enqueue('-w', 'tiny', 'moved')
    _await(weir, id, 'WAITING')
    assert _report(door, function.token(2), output=1).status == 202
    assert weir.ended(id)['status'] == 'COMPLETED'


def late_reports_of_one_address_are_not_refused_as_guesses(weir):
    function, door = _scene(weir, retry={'attempts': 2, 'backoff': '1h'})
    _node(weir)
    tokens = []
    for count in range(1, 26):
        id = weir.enqueue('-w', 'tiny', 'work')
        tokens.append(function.token(count))
        weir.good('cancel', id, '-q')
        weir.ended(id)
    for token in tokens:
        problem(_report(door, token, output=1), 404, 'not_found')


def a_report_needs_no_token_and_other_requests_do(weir):
    function, door = _scene(weir)
    weir.good('token', 'create', 'ops', '--role', 'admin', '--all-workspaces', '-q')
    door.stop()
    door = Listener(weir, '--executor-group', 'door')
    wait_for('the tokens', lambda: door.ask('/v1/executions').status == 401, pause=SHORT)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    assert _report(door, function.token(), output={'total': 6}).status == 202
    assert _output(weir.ended(id)) == [6]


def a_cancel_and_a_wake_end_the_wait(weir):
    function, door = _scene(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    _await(weir, id, 'WAITING')
    assert weir.run('wake', id).code == 4 and weir.run('wake', id, '--waiting-for', 'signal').code == 4
    weir.good('wake', id, '--waiting-for', 'callback', '-q')
    shown = weir.ended(id)
    assert shown['status'] == 'FAILED' and shown['error_code'] == 'callback_timeout', shown
    id = weir.enqueue('-w', 'tiny', 'work')
    _await(weir, id, 'WAITING')
    weir.good('cancel', id, '-q')
    assert weir.ended(id)['status'] == 'CANCELLED'
    problem(_report(door, function.token(2), output={'total': 9}), 404, 'not_found')


def a_node_that_dies_during_the_request_repeats_nothing_that_was_reported(weir):
    function, door = _scene(weir)
    held = threading.Event()

    def hold(request):
        held.wait(60)
        return 202, {}, b''

    function.answer = hold
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    assert _report(door, function.token(), output={'total': 8}).status == 202
    node.send_signal(signal.SIGKILL)
    node.wait()
    _node(weir)
    shown = weir.ended(id)
    held.set()
    assert shown['status'] == 'COMPLETED' and _output(shown) == [8] and function.attempts() == ['1'], shown


def a_node_that_stops_between_the_report_and_its_record_repeats_nothing(weir):
    function, door = _scene(weir)
    held = threading.Event()

    def hold(request):
        held.wait(60)
        return 202, {}, b''

    function.answer = hold
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'work')
    assert _report(door, function.token(), output={'total': 8}).status == 202
    node.send_signal(signal.SIGTERM)
    held.set()
    assert node.wait(timeout=60) == 0
    _node(weir)
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and _output(shown) == [8] and function.attempts() == ['1'], shown


def a_node_that_is_killed_around_the_report_loses_nothing(weir):
    function, door = _scene(weir)
    for point, passes in KILL_POINTS.items():
        for count in passes:
            seen = len(function.server.requests)
            node = _node(weir, WEIR_FAILPOINT=f'{point}:kill:{count}')
            id = weir.enqueue('-w', 'tiny', 'work')
            reported = None
            other = None
            while reported is None or reported.status != 202:  # a token of an attempt that was begun anew counts no more
                if node.poll() is not None and other is None:
                    assert node.returncode == -signal.SIGKILL, (point, count)
                    other = _node(weir)
                tokens = function.tokens()[seen:]
                reported = _report(door, tokens[-1], output={'total': seen}) if tokens else None
            assert node.wait(timeout=60) == -signal.SIGKILL, (point, count)
            other = other or _node(weir)
            shown = weir.ended(id)
            place = (point, count, shown)
            assert shown['status'] == 'COMPLETED' and _output(shown) == [seen], place
            assert [row['step'] for row in shown['signals']] == ['call'], place
            other.send_signal(signal.SIGTERM)
            other.wait()
    assert weir.good('store', 'check', '--json').json()['problems'] == []


if __name__ == '__main__':
    code = run_tests(sys.modules[__name__], sys.argv[1])
    if SERVER is not None:
        SERVER.close()
    sys.exit(code)
