#!/usr/bin/env python3
"""A server as the store of the command line: what goes wrong between the two, and what only a server has.

usage: remote_test.py BINARY [TEST ...]
"""

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading

from harness import ThroughServer, assert_error, run_tests
from http_test import Listener
from ports import free_port
from postgres_server import PostgresServer
from waiting import wait_for

PROBLEM = b'{"type":"x","title":"x","status":%d,"code":"%s","detail":"as told"}'
STORE = b'{"weir_version":"0.1.0","now_at":"2026-11-26T04:00:00.000000Z"}'


class FakeServer:
    """Answers each request with what `answer` makes of its head and body; None ends the connection without an answer, and
    a wait for an event holds it back."""

    def __init__(self, answer, certificate=None):
        self.answer = answer
        self.tls = None
        if certificate is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate + '.pem', certificate + '.key')
        self.heads = []
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.url = f'{"http" if certificate is None else "https"}://127.0.0.1:{self.socket.getsockname()[1]}'
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.socket.close()

    def _accept(self):
        while not self.is_over.is_set():
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.threads.append(threading.Thread(target=self._serve_all, args=(connection,)))
            self.threads[-1].start()

    def _serve_all(self, connection):
        if self.tls is not None:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except (ssl.SSLError, ConnectionError):
                return connection.close()
        with connection:
            while self._serve(connection):
                pass

    def _serve(self, connection):
        data = b''
        while b'\r\n\r\n' not in data:
            piece = connection.recv(65536)
            if not piece:
                return False
            data += piece
        head, _, body = data.partition(b'\r\n\r\n')
        lengths = [int(line.split(b':')[1]) for line in head.split(b'\r\n') if line.lower().startswith(b'content-length')]
        length = lengths[0] if lengths else 0
        while len(body) < length:
            body += connection.recv(65536)
        self.heads.append(head.decode())
        answer = self.answer(head.decode(), body)
        if answer is None:
            return False
        status, text = answer
        head = b'HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % (status, len(text))
        connection.sendall(head + text)
        return True


def _weir_that(**answers):
    """A weir server, but for the paths (with _ for /) that answer as told."""
    def answer(head, body):
        path = head.split()[1].partition('?')[0]
        told = answers.get(path.removeprefix('/v1/').replace('/', '_').replace(':', '_'))
        if told is None:
            return 200, STORE
        return told(head, body) if callable(told) else told
    return FakeServer(answer)


# --- between the two ---


def a_server_that_is_down_is_exit_code_6(weir):
    url = f'http://127.0.0.1:{free_port()}'
    for words in (('list',), ('cancel', '0198c2f1-0000-7000-8000-000000000000'), ('enqueue', '-w', 'acme', 'hello')):
        assert_error(weir.run(*words, '--store', url), 6, 'store_unreachable', url, 'weir serve --listen')
    assert_error(weir.run('list', '--store', 'unix:' + weir.path('none.sock')), 6, 'store_unreachable', 'none.sock')
    assert_error(weir.run('list', '--store', 'http://no-such-host.invalid:1'), 6, 'store_unreachable', 'no-such-host')


@contextlib.contextmanager
def _silent_port():
    """No connection to it is refused or accepted, as with a machine that is switched off: the backlog is full."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(('127.0.0.1', 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def a_machine_that_is_off_is_passed_over(weir):
    """Also by a change: nothing of it was sent."""
    with _silent_port() as port, _weir_that(executions=(200, b'{"items":[]}')) as server:
        silent = f'http://127.0.0.1:{port}'
        assert_error(weir.run('list', '--store', silent, '--timeout', '1s'), 6, 'store_unreachable', silent,
                     'has not accepted a connection within 1.0s')
        both = f'{silent},{server.url.removeprefix("http://")}'
        weir.good('list', '--store', both, '--timeout', '60s')
        weir.run('enqueue', '-w', 'acme', 'hello', '--store', both, '--timeout', '60s')
        assert any(head.startswith('POST ') for head in server.heads), server.heads


def a_url_that_is_none_is_refused(weir):
    for url, word in (('http://', 'no host'), ('http:///x', 'no host'), ('http://:80', 'no host'),
                      ('unix:x.sock', 'whole path'),
                      ('http://me:secret@127.0.0.1:1', 'http.token_file'), ('http://127.0.0.1:1/?a=b', 'http.token_file')):
        result = weir.run('list', '--store', url)
        assert_error(result, 2, 'invalid_argument', word, 'for example')
        assert 'secret' not in result.err, result
    assert_error(weir.run('list', '--store', 'http://h/' + 'x' * 600), 2, 'invalid_argument', 'too long')


def what_is_no_weir_is_exit_code_6(weir):
    for answer, word in (((404, b'not here'), 'answers 404'), ((200, b'<html>'), 'no JSON'), ((200, b'[1]'), 'no JSON'),
                         ((200, b'{"a": '), 'no JSON'), ((301, b''), 'answers 301'), ((200, b''), 'no JSON')):
        with FakeServer(lambda head, body, answer=answer: answer) as server:
            assert_error(weir.run('list', '--store', server.url), 6, 'store_not_weir', word)
    with FakeServer(lambda head, body: (404, PROBLEM % (404, b'not_found'))) as server:
        assert_error(weir.run('list', '--store', server.url), 6, 'store_not_weir', 'without a path')
    with _weir_that(store=(200, b'{"now_at": "soon"}')) as server:
        assert_error(weir.run('list', '--store', server.url), 6, 'store_not_weir', '"now_at"')
    with _weir_that(executions=(200, b'{"rows": []}')) as server:
        assert_error(weir.run('list', '--store', server.url), 6, 'store_not_weir', '"items"')


def a_refusal_keeps_its_status(weir):
    for number, code, status, exit_code in (
            (401, b'unauthenticated', 'not_permitted', 5), (403, b'scope_missing', 'not_permitted', 5),
            (503, b'overloaded', 'store_busy', 6), (429, b'rate_limited', 'queue_full', 4),
            (409, b'illegal_state', 'illegal_state', 4), (400, b'odd', 'invalid_argument', 2),
            (500, b'odd', 'failed', 1), (503, b'store_full', 'store_full', 6)):
        with FakeServer(lambda head, body, number=number, code=code: (number, PROBLEM % (number, code))) as server:
            assert_error(weir.run('list', '--store', server.url), exit_code, status, 'as told')
    for number in (502, 503, 504):
        with FakeServer(lambda head, body, number=number: (number, b'proxy')) as server:
            result = weir.run('list', '--store', server.url)
            assert result.code == 6 and 'proxy before the server' in result.err, result


def a_slow_server_is_left_at_the_deadline(weir):
    over = threading.Event()

    def wait(head, body):
        over.wait()
    with _weir_that(executions=wait, pause=wait) as server:
        try:
            result = weir.run('list', '--timeout', '200ms', '--store', server.url)
            assert_error(result, 6, 'store_unreachable', 'within 200ms')
        finally:
            over.set()
    over.clear()
    with _weir_that(pause=wait) as server:
        try:
            for timeout in ('200ms', '2s', '20s'):  # on a slow machine the first request may have no answer in time
                result = weir.run('pause', '--timeout', timeout, '--store', server.url)
                if 'commit_unknown' in result.err or any(head.startswith('POST ') for head in server.heads):
                    break
            assert_error(result, 6, 'commit_unknown', 'read back')
        finally:
            over.set()


def a_lost_answer_of_a_change_is_unknown_and_of_an_enqueue_is_asked_again(weir):
    with _weir_that(resume=lambda head, body: None) as server:
        assert_error(weir.run('resume', '--store', server.url), 6, 'commit_unknown', 'it may have taken effect')
    with _weir_that(resume=(200, b'{"paused')) as server:
        assert_error(weir.run('resume', '--store', server.url), 6, 'commit_unknown', 'is cut')
    bodies = []

    def lose_first(head, body):
        bodies.append(body)
        id = json.loads(body)['id']
        return None if len(bodies) == 1 else (200, json.dumps({'items': [{'id': id, 'duplicate': True}]}).encode())
    with FakeServer(lambda head, body: lose_first(head, body) if 'batch' in head.split()[1] else (200, STORE)) as server:
        result = weir.good('enqueue', '-w', 'acme', 'hello', '--json', '--store', server.url)
    assert bodies[0] == bodies[1] and len(bodies) == 2, bodies
    assert result.json()['id'] == json.loads(bodies[0])['id'] and result.json()['duplicate'] is False, result


def an_end_is_reported_with_its_result_as_written(weir):
    id = '0198c2f1-0000-7000-8000-000000000000'
    bodies = []

    def end(head, body):
        bodies.append(body)
        return 202, b'{"id": "x", "status": "COMPLETED"}'
    shown = json.dumps({'id': id, 'status': 'DISPATCHED', 'fence': 7, 'steps': []}).encode()
    with FakeServer(lambda head, body: end(head, body) if head.startswith('POST') else
                    (200, shown if id in head else STORE)) as server:
        weir.good('complete', id, '--result', '{"total": 1.50}', '--store', server.url)
        weir.good('complete', id, '--failed', '--error', 'no "money"', '--error-code', 'declined', '--store', server.url)
    assert b'"result":{"total": 1.50}' in bodies[0] and json.loads(bodies[0])['status'] == 'COMPLETED', bodies
    failed = json.loads(bodies[1])
    assert (failed['status'], failed['error'], failed['error_code']) == ('FAILED', 'no "money"', 'declined'), bodies


# --- tokens, names ---


def _write_token(weir, name, token):
    os.chmod(weir.write(name, token), 0o600)


def a_token_comes_from_a_file_or_a_variable_and_from_nowhere_else(weir):
    _write_token(weir, 'token', 'secret-of-file\n')
    _write_token(weir, 'empty', '\n')
    given = []

    def note(head, body):
        tokens = [line.split(': ', 1)[1] for line in head.split('\r\n') if line.startswith('Authorization')]
        given.append(tokens[0] if tokens else None)
        return 200, b'{"items": []}' if 'plans' in head else STORE
    with FakeServer(note) as server:
        plans = ('plan', 'list', '--store', server.url)
        for words, env, token in (((), {}, None), (('--token-file', 'token'), {}, 'Bearer secret-of-file'),
                                  ((), {'WEIR_TOKEN_FILE': 'token'}, 'Bearer secret-of-file'),
                                  ((), {'WEIR_TOKEN': 'secret-of-variable'}, 'Bearer secret-of-variable'),
                                  (('--token-file', 'token'), {'WEIR_TOKEN': 'x'}, 'Bearer secret-of-file')):
            weir.good(*plans, *words, env=env)
            assert set(given) == {token}, (words, env, given)
            given.clear()
        for name in ('empty', 'missing'):
            assert_error(weir.run(*plans, '--token-file', name), 2, 'invalid_config', name, 'one line')
    result = weir.run('list', '--store', 'http://weir.example', '--token-file', 'token')
    assert_error(result, 2, 'invalid_config', 'https://')
    assert 'secret' not in result.err, result


def a_token_that_every_user_may_read_is_not_sent(weir):
    _write_token(weir, 'token', 'secret-of-file\n')
    with FakeServer(lambda head, body: (200, b'{"items": []}') if 'plans' in head else (200, STORE)) as server:
        plans = ('plan', 'list', '--store', server.url, '--token-file', 'token')
        for mode in (0o644, 0o604, 0o602, 0o601):
            os.chmod(weir.path('token'), mode)
            result = weir.run(*plans)
            assert_error(result, 2, 'invalid_config', 'every user', 'chmod 600')
            assert server.heads == [] and 'secret-of-file' not in result.err, (oct(mode), server.heads, result)
        os.chmod(weir.write("it's mine", 'secret-of-file\n'), 0o644)
        refused = weir.run('plan', 'list', '--store', server.url, '--token-file', "it's mine", code=2)
        subprocess.run(re.search(r'chmod [^,]*', refused.err).group(), shell=True, check=True, cwd=weir.folder)
        weir.good('plan', 'list', '--store', server.url, '--token-file', "it's mine")
        server.heads.clear()
        for mode in (0o600, 0o400, 0o640):  # a group of its own is how a service shares it
            os.chmod(weir.path('token'), mode)
            weir.good(*plans)
        assert all('Authorization: Bearer secret-of-file' in head for head in server.heads), server.heads


def hints_of_a_server_name_its_machine_for_what_it_cannot_do(weir):
    weir.make_store()
    node = Listener(weir)
    url = weir.url = f'http://127.0.0.1:{node.port}'
    create = ('token', 'create', '--role', 'admin', '--all-workspaces', '-q')
    secret = weir.good(*create, 'ops', env={'WEIR_STORE': 'sqlite:weir.db'}).out.strip()
    wait_for('the need of a token', lambda: weir.run('plan', 'list').code == 5)
    refused = weir.run('plan', 'list')
    weir.environment['WEIR_TOKEN'] = secret
    for result, code, status in ((refused, 5, 'not_permitted'), (weir.run(*create, 'x'), 2, 'invalid_argument'),
                                 (weir.run('store', 'init', '--store', url), 2, 'invalid_argument')):
        assert_error(result, code, status, "the server's machine")
        assert '--store' not in result.err, result  # the server cannot do it
    node.stop()


def an_operator_of_one_workspace_needs_no_further_right_for_its_commands(weir):
    """The whole id of an execution is enough, as it is in the paths of the API, and a pause needs no administrator."""
    weir.make_store()
    node = Listener(weir).ready()
    local = {'WEIR_STORE': 'sqlite:weir.db'}
    secrets = {name: weir.good('token', 'create', name, '--role', 'operate', '-w', name, '-q', env=local).out.strip()
               for name in ('acme', 'tiny')}
    wait_for('the need of a token', lambda: weir.run('plan', 'list', '--store', f'http://127.0.0.1:{node.port}').code == 5)
    weir.url = f'http://127.0.0.1:{node.port}'
    weir.environment['WEIR_TOKEN'] = secrets['acme']
    ended = weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '--json')
    id = ended.json()['id']
    assert ended.json()['status'] == 'COMPLETED', ended
    assert f'{id} COMPLETED' in weir.good('wait', id).out
    weir.good('workspace', 'pause', 'acme', '--reason', 'a test')
    waits = weir.good('enqueue', '-w', 'acme', 'hello', '-q').out.strip()
    assert 'workspace is paused' in weir.good('why', waits).out
    weir.good('cancel', waits)
    again = weir.good('retry', waits, '-q').out.split()[-1]
    weir.good('workspace', 'resume', 'acme')
    weir.good('wait', again)
    for words in (('list', '--where', 'workflow=hello'), ('failures', '--where', 'workflow=hello'),
                  ('cancel', '--where', 'workflow=hello', '-n'), ('workflow', 'list'), ('workflow', 'show', 'hello')):
        weir.good(*words, '-w', 'acme')
    weir.good('enqueue', '-w', 'acme', 'hello', '-n')
    for words in (('enqueue', 'helo', '-n'), ('workflow', 'show', 'helo'), ('list', '--where', 'workflow=helo')):
        assert_error(weir.run(*words, '-w', 'acme'), 3, 'workflow_not_found', 'did you mean "hello"?')
    assert_error(weir.run('workspace', 'set', 'acme', '--max-concurrent', '3'), 5, 'not_permitted', 'operate')
    assert_error(weir.run('list'), 2, 'invalid_argument', '-w NAME')
    weir.environment['WEIR_TOKEN'] = secrets['tiny']
    for words in (('wait', id), ('show', id), ('cancel', waits), ('retry', waits), ('list', '--where', f'id={id}')):
        assert_error(weir.run(*words), 3, 'execution_not_found', 'there is no execution')
    assert_error(weir.run('workspace', 'pause', 'acme'), 3, 'workspace_not_found', 'there is no workspace')
    weir.environment['WEIR_TOKEN'] = weir.good('token', 'create', 'head', '--role', 'admin', '-w', 'acme', '-q',
                                               env=local).out.strip()
    wait_for('the token', lambda: weir.run('list', '-w', 'acme').code == 0)
    own = {'name': 'own', 'steps': {'only': {'exec': ['true']}}}
    weir.write('own.json', json.dumps(own))
    assert_error(weir.run('workflow', 'apply', 'own.json'), 2, 'invalid_argument', 'in a definition workspace: NAME')
    weir.write('own.json', json.dumps({**own, 'workspace': 'acme'}))
    weir.good('workflow', 'apply', 'own.json')
    assert_error(weir.run('workflow', 'delete', 'hello', '-w', 'acme', '-n'), 3, 'workflow_not_found', 'this workspace')
    weir.good('workflow', 'delete', 'own', '-w', 'acme', '-n')
    weir.good('workflow', 'delete', 'own', '-w', 'acme')
    node.stop()


def commands_of_a_hint_name_the_server(weir):
    weir.make_store()
    url = weir.server()
    for words, command in ((('hook', 'pause', 'x'), 'hook list'), (('schedule', 'pause', 'x'), 'schedule list'),
                           (('workspace', 'pause', 'x'), 'workspace list'), (('enqueue', '-w', 'x', 'y'), 'workspace set'),
                           (('workspace', 'set', 'x', '--plan', 'y'), 'plan list'),
                           (('workflow', 'disable', 'x'), 'workflow list'),
                           (('cancel', '01a2269d-041f-7001-b9b2-66332fc8c7b4'), 'list'), (('cancel', 'none'), 'list')):
        for store in (url, f'sqlite:{weir.path("weir.db")}'):
            result = weir.run(*words, '--store', store)
            assert f'weir --store {store} {command}' in result.err, result


def a_certificate_must_be_of_a_known_authority_and_of_this_name(weir):
    for name, signer, alternative in (('authority', '', ''), ('server', 'authority', 'IP:127.0.0.1'),
                                      ('other', 'authority', 'DNS:elsewhere.example')):
        subprocess.run([os.environ['WEIR_MAKE_CERTIFICATE'], weir.folder, name, signer, alternative, '-60', '3600'],
                       check=True)
    _write_token(weir, 'token', 'secret\n')
    weir.environment['WEIR_TOKEN_FILE'] = 'token'
    plans = (200, b'{"items": []}')
    with FakeServer(lambda head, body: plans if 'plans' in head else (200, STORE), weir.path('server')) as server:
        assert_error(weir.run('plan', 'list', '--store', server.url), 6, 'store_unreachable', 'certificate', 'http.ca_file')
        assert server.heads == [], 'a token was sent to a stranger'
        weir.environment['WEIR_CA_FILE'] = 'authority.pem'
        weir.good('plan', 'list', '--store', server.url)
    with FakeServer(lambda head, body: (200, STORE), weir.path('other')) as server:
        assert_error(weir.run('plan', 'list', '--store', server.url), 6, 'store_unreachable', 'certificate')
        assert server.heads == [], 'a token was sent to a stranger'


def acts_name_the_person_and_the_reason(weir):
    weir.make_store()
    reason = 'mail is down: 100 % ä'
    weir.good('pause', '--reason', reason)
    act = weir.items('audit', '--limit', '1')[0]
    assert act['actor'].startswith('cli:') and act['reason'] == reason, act
    assert_error(weir.run('resume', '--reason', 'a\nInjected: b'), 2, 'invalid_argument', 'line break')


def names_of_any_form_arrive_whole(weir):
    weir.make_store()
    for name in ('a/b', 'a b', '100%', 'a+b&c=d', 'ä?#', '...', 'a%2Fb'):
        weir.good('workspace', 'set', name, '--plan', 'free', '-q')
        assert weir.good('workspace', 'show', name, '--json').json()['name'] == name
        assert name in [row['name'] for row in weir.items('workspace', 'list', '--prefix', name[:1])]
        params = '{"n": 1.50, "t": "\\u00e4\\n"}'
        id = weir.enqueue('-w', name, 'hello', '-p', params, '-k', name)
        assert [row['id'] for row in weir.items('list', '-w', name)] == [id]
        with weir.database() as database:
            stored = database.execute('SELECT params FROM execution_params WHERE id = ?', (id,)).fetchone()[0]
        assert stored == params.encode() or stored == params, stored
    assert [row['name'] for row in weir.items('workspace', 'list', '--prefix', 'a%')] == ['a%2Fb']
    assert 'no workspace has a name' in weir.good('workspace', 'list', '--prefix', 'a/b/').err


def tokens_are_listed_and_revoked_through_a_server(weir):
    """The first token closes the server, so an admin's one asks. None is made through it."""
    weir.make_store()
    url = weir.server()
    made = [weir.good('token', 'create', name, '--role', role, '--all-workspaces', '--store', 'weir.db').out
            for name, role in (('root', 'admin'), ('ci', 'read'), ('old', 'read'))]
    _write_token(weir, 'token', made[0])
    through = ('--store', url, '--token-file', 'token')
    listed = weir.good('token', 'list', '--json', *through).json()
    for row in listed['items']:
        row.pop('last_used_at')  # written by the server within a second
    direct = weir.good('token', 'list', '--json', '--store', 'weir.db').json()
    for row in direct['items']:
        row.pop('last_used_at')
    assert listed == direct and [row['name'] for row in listed['items']] == ['root', 'ci', 'old'], listed
    assert weir.good('token', 'revoke', 'ci', '-n', '--json', *through).json()['dry_run'] is True
    planned = {row['name']: row['state'] for row in weir.items('token', 'list', *through)}
    assert planned == {'root': 'live', 'ci': 'live', 'old': 'live'}, planned
    revoked = weir.good('token', 'revoke', 'ci', '--reason', 'left', '--json', *through).json()
    assert revoked == {'act': 'token revoke', 'name': 'ci', 'dry_run': False}, revoked
    states = {row['name']: row['state'] for row in weir.items('token', 'list', *through)}
    assert states == {'root': 'live', 'ci': 'revoked', 'old': 'live'}, states
    act, = [row for row in weir.items('audit', *through) if row['act'] == 'token revoke']
    assert (act['actor'], act['subject'], act['reason']) == ('token:root', 'ci', 'left'), act
    assert_error(weir.run('token', 'revoke', 'ci', *through), 3, 'not_found')
    assert_error(weir.run('token', 'revoke', str(listed['items'][2]['id']), *through), 3, 'not_found', 'by its id')
    for words in (('list',), ('revoke', 'root')):  # a token of a reader
        _write_token(weir, 'weak', made[2])
        assert_error(weir.run('token', *words, '--store', url, '--token-file', 'weak'), 5, 'not_permitted')
    refused = weir.run('token', 'create', 'more', '--role', 'read', '--all-workspaces', *through)
    assert_error(refused, 2, 'invalid_argument', 'token create')


def what_needs_the_store_is_refused(weir):
    weir.make_store()
    url = weir.server()
    for words in (('serve',), ('dev',), ('store', 'init'), ('store', 'backup', 'copy.db')):
        result = weir.run(*words, '--store', url)
        assert result.code == 2 and 'invalid_argument' in result.err and 'store itself' in result.err, (words, result)


def a_filter_that_is_too_long_for_a_request_is_refused_in_words(weir):
    """The longest filter of the command line fits, also when each of its characters counts three for each byte."""
    weir.make_store()
    url = weir.server()
    longest = 'error_text=' + 'ü' * 2040
    assert len(longest.encode()) <= 4096
    assert weir.items('list', '--where', longest, '--store', url) == []
    refused = weir.run('audit', '--actor', 'a' * 20000, '--store', url)
    assert refused.code == 2 and 'invalid_argument' in refused.err, refused
    assert 'memory' not in refused.err and 'more than' in refused.err, refused


def a_log_that_is_no_text_arrives_whole(weir):
    weir.make_store()
    script = "printf '\\377\\000x\\303\\244\\n'; head -c 300000 /dev/urandom"
    weir.write('noise.yaml', json.dumps({'name': 'noise', 'steps': {'a': {'exec': ['sh', '-c', script]}}}))
    weir.good('workflow', 'apply', 'noise.yaml', '-q')
    weir.spawn('serve', '--allow-exec', '-q')
    id = weir.enqueue('-w', 'acme', 'noise')
    weir.run('wait', id)
    direct = weir.good('logs', id, '--json', '--store', 'weir.db')
    assert len(direct.out) > 100000 and weir.good('logs', id, '--json').out == direct.out


def an_output_that_looks_like_json_is_opened_once(weir):
    weir.make_store()
    weir.write('nine.yaml', json.dumps({'name': 'nine', 'steps': {'a': {'exec': ['echo', '"9"']}}}))
    weir.good('workflow', 'apply', 'nine.yaml', '-q')
    weir.spawn('serve', '--allow-exec', '-q')
    id = weir.enqueue('-w', 'acme', 'nine')
    weir.good('wait', id)
    assert weir.good('show', id, '--json').json()['steps'][0]['output'] == '9'
    assert weir.good('show', id, '--json').json() == weir.good('show', id, '--json', '--store', 'weir.db').json()


def failures_are_grouped(weir):
    weir.make_store()
    weir.write('fail.yaml', 'name: fail\nsteps:\n  a:\n    exec: [sh, -c, "echo broken >&2; exit 3"]\n')
    weir.good('workflow', 'apply', 'fail.yaml', '-q')
    listener = Listener(weir).ready()
    ids = [weir.enqueue('-w', 'acme', 'fail') for _ in range(3)]
    weir.run('wait', *ids[:1])
    for id in ids:
        weir.run('wait', id)
    answer = listener.ask('/v1/failures?workspace=acme').json()
    assert answer['executions_read'] == 3 and answer['is_whole'] is True, answer
    groups = [(group['workflow'], group['count'], group['sample_id']) for group in answer['items']]
    assert groups == [('fail', 3, ids[-1])], answer
    assert listener.ask('/v1/failures?workspace=tiny').json()['items'] == []
    assert listener.ask('/v1/failures?workspace=').status == 400
    listener.stop()


def a_server_on_postgres_answers_as_one_on_sqlite(weir):
    postgres = PostgresServer()
    try:
        url = weir.environment['WEIR_STORE'] = postgres.url()
        weir.make_store()
        weir.environment['WEIR_STORE'] = weir.server(url)
        ids = weir.enqueue_many(30)
        for words in (('list', '--count'), ('status',), ('show', ids[0]), ('why', ids[0]), ('workspace', 'show', 'acme'),
                      ('workflow', 'show', 'hello'), ('plan', 'list'), ('audit',), ('store', 'check')):
            through, direct = (weir.good(*words, '--json', '--store', store).json() for store in (weir.url, url))
            assert _without_times(through) == _without_times(direct), words
        refused = weir.run('enqueue', '-w', 'acme', 'helo')
        assert_error(refused, 3, 'workflow_not_found', 'did you mean "hello"?')
        weir.good('cancel', '-w', 'acme', '--yes', '--reason', 'enough')
        assert weir.items('audit', '--limit', '1')[0]['affected'] == 30
        weir.good('purge', '--where', 'workspace=acme status=cancelled', '--yes', '-q')
        assert weir.items('list') == []
    finally:
        weir.close()
        postgres.close()


def _without_times(value):
    """Ages grow between two commands."""
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items()
                if not key.endswith('_us') and key not in ('now_at', 'store', 'checked_at')}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], kind=ThroughServer))
