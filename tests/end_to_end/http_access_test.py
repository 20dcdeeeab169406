#!/usr/bin/env python3
"""Tokens over HTTP: the matrix of routes and tokens, made from the table of routes, and the life of a token.

usage: http_access_test.py BINARY [TEST ...]
"""

import itertools
import json
import os
import re
import selectors
import shlex
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

from harness import run_tests
from http_client import SECONDS, Listener, code_of, is_closed, read_answer
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

ROLES = ('read', 'enqueue', 'operate', 'admin')
MISSING = '01a215fd-f18a-7002-b43c-a0d8f870aebd'
OPEN = {'GET /livez', 'GET /readyz', 'GET /openapi.json', 'GET /docs', 'GET /docs/problems', 'GET /docs/problems/{code}',
        'GET /', 'GET /assets/{version}/{file}', 'DELETE /v1/session', 'POST /v1/callbacks:complete',
        'GET /v1/oidc', 'GET /v1/oidc_sign_in', 'GET /v1/oidc_callback',
        'POST /v1/callbacks:fail', 'GET /embed/workspaces/{workspace}', 'POST /plain/session', 'GET /plain/session'}
#: Without the setting http.embed_origins the box is refused to all, and the form of the sign-in reads a token itself.
OPEN_ANSWERS = {'GET /embed/workspaces/{workspace}': 403, 'POST /plain/session': 403}
FILTERED = ('/v1/executions', '/v1/executions:act', '/v1/failures')  # the keys of a filter are arguments
SOURCES = itertools.count(2)
SERVER = None


def _routes(weir):
    """(method, path, role, source of the workspace, takes a body) of each row."""
    rows = json.loads(weir.good('__routes').out)
    found = [(row['method'], row['path'], row['scope'], row['workspace'], bool(row['bodies'])) for row in rows]
    assert len(found) >= 60 and all(role in (*ROLES, 'open') for _, _, role, _, _ in found), found
    return found


class Client:
    """Each request comes from an address of its own, so that refused attempts do not add up."""

    def __init__(self, listener):
        self.listener = listener

    def ask(self, method, path, secret=None, body=False, host='localhost', source=None, **fields):
        number = next(SOURCES)
        content = b'{}' if body else b''
        lines = [f'{method} {path} HTTP/1.1', f'Host: {host}']
        lines += ['Content-Type: application/json', f'Content-Length: {len(content)}'] if body else []
        lines += [f'Authorization: {secret if " " in secret else "Bearer " + secret}'] if secret is not None else []
        lines += [f'{name.replace("_", "-")}: {value}' for name, value in fields.items()]
        with socket.create_connection(('127.0.0.1', self.listener.port), SECONDS,
                                      (source or f'127.1.{number // 250}.{number % 250 + 1}', 0)) as connection:
            connection.sendall('\r\n'.join(lines).encode() + b'\r\n\r\n' + content)
            return read_answer(connection)


def _token(weir, name, role, *words):
    return weir.good('token', 'create', name, '--role', role, *(words or ('--all-workspaces',)), '-q').out.strip()


def _fill(path, workspace, execution):
    path = path.replace('{workspace}', workspace).replace('{id}', execution).replace('{code}', 'not_found')
    return re.sub(r'\{\w+\}', 'x', path)


def _same(first, second, *pairs):
    """Whether two refusals differ in nothing but these texts and the id of the request; pages also in their depth and
    in the key of a form."""
    def text(answer):
        page = re.sub(r'name="key" value="[\w-]*"', '', answer.body.decode().replace('../', ''))
        problem = {'page': page, 'request_id': ''} if answer.is_page() else answer.json()
        del problem['request_id']
        found = json.dumps(problem)
        for one, other in pairs:
            found = found.replace(one, other)
        return answer.status, found
    assert text(first) == text(second), (first, second)


def _assert_401(answer):
    assert (answer.status, code_of(answer)) == (401, 'unauthorized'), answer
    assert answer.head['www-authenticate'] == 'Bearer', answer


def every_route_refuses_every_wrong_token(weir):
    weir.make_store()
    execution = weir.enqueue('-w', 'acme', 'hello')
    weir.good('schedule', 'set', 'x', '--every', '1h', '--workflow', 'hello', '-w', 'acme', '-q')
    secrets = {role: _token(weir, role, role) for role in ROLES}
    own = {role: _token(weir, f'acme-{role}', role, '-w', 'acme') for role in ROLES}
    other = {role: _token(weir, f'tiny-{role}', role, '-w', 'tiny') for role in ROLES}
    expired, revoked = _token(weir, 'expired', 'admin'), _token(weir, 'revoked', 'admin')
    weir.database().execute("UPDATE tokens SET expires_at = created_at + 1 WHERE name = 'expired'")
    weir.good('token', 'revoke', 'revoked', '-q')
    listener = Listener(weir).ready()
    client = Client(listener)
    unknown = 'weir_' + 'A' * 43
    refusals = {}  # the first of each type
    assert {f'{method} {path}' for method, path, role, _, _ in _routes(weir) if role == 'open'} == OPEN
    for method, path, role, workspace, body in _routes(weir):
        place = f'{method} {path}'
        mine = _fill(path, 'acme', execution)
        if role == 'open':
            status = client.ask(method, mine).status
            assert status == OPEN_ANSWERS.get(place, status), (place, status)
            assert place in OPEN_ANSWERS or status not in (401, 403, 421, 429), (place, status)
            continue
        for secret in (None, unknown, expired, revoked, 'x', '', 'Basic d2Vpcjp4', 'Bearer', own['admin'] + 'A',
                       own['admin'][:-1]):
            answer = client.ask(method, mine, secret, body)
            _assert_401(answer)
        _same(refusals.setdefault(answer.head['content-type'], answer), answer)
        for lower in ROLES[:ROLES.index(role)]:
            answer = client.ask(method, mine, secrets[lower], body)
            assert (answer.status, code_of(answer)) == (403, 'not_permitted'), (place, answer)
        foreign = client.ask(method, mine + ('?workspace=acme' if workspace == 'filter' else ''), other[role], body)
        if workspace == 'path':
            assert foreign.status == 404 and code_of(foreign) == 'workspace_not_found', (place, foreign)
            missing = client.ask(method, _fill(path, 'zzzz', execution), other[role], body)
            _same(foreign, missing, ('acme', 'zzzz'))
        elif workspace == 'id':
            assert foreign.status == 404 and code_of(foreign) == 'execution_not_found', (place, foreign)
            missing = client.ask(method, _fill(path, 'acme', MISSING), other[role], body)
            _same(foreign, missing, (execution, MISSING))
            for secret in (other[role], own[role]):  # the first characters may be those of others, too
                short = client.ask(method, _fill(path, 'acme', execution[:8]), secret, body)
                assert short.status == 404 and code_of(short) == 'execution_not_found', (place, short)
        elif workspace == 'filter':
            assert foreign.status == 404 and code_of(foreign) == 'workspace_not_found', (place, foreign)
            _same(foreign, client.ask(method, mine + '?workspace=zzzz', other[role], body), ('acme', 'zzzz'))
            assert client.ask(method, mine, other[role], body).status == 400, place
            hidden = client.ask(method, mine + '?workspace=tiny&where=workspace%3Dacme', other[role], body)
            has_filter = path in FILTERED
            assert (hidden.status, code_of(hidden)) == ((404, 'workspace_not_found') if has_filter or 'plain' in path else
                                                        (400, 'invalid_argument')), (place, hidden)
            _same(hidden, client.ask(method, mine + '?workspace=tiny&where=workspace%3Dzzzz', other[role], body),
                  ('acme', 'zzzz'))
            by_id = client.ask(method, f'{mine}?id={execution}', other[role], body)
            assert (by_id.status, code_of(by_id)) == ((404, 'execution_not_found') if has_filter else
                                                      (400, 'invalid_argument')), (place, by_id)
            _same(by_id, client.ask(method, f'{mine}?id={MISSING}', other[role], body), (execution, MISSING))
        elif workspace == 'schedule' and '{' in path:
            assert foreign.status == 404 and code_of(foreign) == 'not_found', (place, foreign)
            _same(foreign, client.ask(method, mine.replace('/x', '/zzzz'), other[role], body), ('"x"', '"zzzz"'),
                  ('\\"x\\"', '\\"zzzz\\"'))
        elif workspace == 'schedule':
            assert (foreign.status, foreign.json()['items']) == (200, []), (place, foreign)
        elif workspace == 'none':
            assert (foreign.status, code_of(foreign)) == (403, 'not_permitted'), (place, foreign)
        else:
            assert foreign.status not in (401, 403, 429), (place, foreign)
    for method, path, role, workspace, body in _routes(weir):
        if role == 'open':
            continue
        mine = _fill(path, 'acme', execution) + ('?workspace=acme' if workspace == 'filter' else '')
        right = [secrets[role], secrets['admin']] + ([own[role]] if workspace != 'none' else [])
        for secret in right:
            answer = client.ask(method, mine, secret, body)
            assert answer.status not in (401, 403, 421, 429), (method, path, answer)
    listener.stop()


def _statements_naming(server, start, execution):
    """What the sessions that got this id sent to the server since this place of its log, the id left out."""
    entries = re.findall(r'^SESSION (\S+) (.*?)(?=^SESSION |\Z)', server.log()[start:], re.M | re.S)
    sessions = {session for session, text in entries if execution in text}
    return [text.strip().replace(execution, 'ID') for session, text in entries if session in sessions]


def an_id_of_another_workspace_makes_the_statements_of_a_missing_one_on_postgres(weir):
    """As many and the same, so that the time of a refusal shows nothing. What each of them reads is a test of the store."""
    server = PostgresServer("log_statement = all\nlog_line_prefix = 'SESSION %c '")
    weir.environment['WEIR_STORE'] = server.url(server.database())
    weir.make_store()
    waiting = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    ended = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    weir.good('cancel', ended, '--yes', '-q')
    secret = _token(weir, 'tiny', 'admin', '-w', 'tiny')
    client = Client(Listener(weir).ready())
    routes = [(method, path, body) for method, path, _, workspace, body in _routes(weir) if workspace == 'id']
    assert len(routes) > 10, routes
    for method, path, body in routes:
        made = []
        for execution in (MISSING, waiting, ended):
            start = len(server.log())
            client.ask(method, _fill(path, 'acme', execution), secret, body)
            made.append(_statements_naming(server, start, execution))
        assert made[0] and made[0] == made[1] == made[2], (method, path, made)


def no_route_lets_a_page_of_another_origin_change_anything(weir):
    """Its browser adds the cookie of an administrator by itself. It can neither send the field nor hide its origin, and
    without the field the cookie is none."""
    weir.make_store()
    execution = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    cookie = f'weir_session={_token(weir, "ada", "admin")}'
    listener = Listener(weir).ready()
    client = Client(listener)
    before = weir.items('audit')
    changing = [row for row in _routes(weir) if row[0] != 'GET']
    assert len(changing) >= 30, changing
    for method, path, role, _, body in changing:
        mine, place = _fill(path, 'acme', execution), f'{method} {path}'
        for origin in ('http://evil.example', 'null', 'http://localhost.evil.example', 'http://localhost:1'):
            for fields in ({'cookie': cookie}, {'cookie': cookie, 'weir_session': '1'}):
                answer = client.ask(method, mine, None, body, origin=origin, **fields)
                assert (answer.status, code_of(answer)) == (403, 'cross_origin'), (place, origin, answer)
        if role != 'open':
            for more in ({}, {'sec_fetch_site': 'same-origin'}):
                answer = client.ask(method, mine, None, body, cookie=cookie, **more)
                _assert_401(answer)
    assert weir.items('audit') == before and weir.show(execution)['status'] == 'PENDING'
    allowed = client.ask('POST', '/v1/pause', cookie=cookie, weir_session='1', origin='http://localhost')
    assert allowed.status == 200, allowed  # the cookie is a right one
    listener.stop()


def a_token_of_a_workspace_sees_nothing_of_another(weir):
    weir.make_store()
    theirs = weir.enqueue('-w', 'tiny', 'hello')
    secret = _token(weir, 'acme', 'enqueue', '-w', 'acme')
    listener = Listener(weir).ready()
    made = listener.ask('/v1/workspaces/acme/executions', 'POST', body={'workflow': 'hello'},
                        authorization=f'Bearer {secret}')
    assert made.status == 202, made
    rows = listener.ask('/v1/executions?workspace=acme&count', authorization=f'Bearer {secret}').json()
    assert [row['id'] for row in rows['items']] == [made.json()['id']] and rows['count'] == 1, rows
    unnamed = listener.ask('/v1/executions', authorization=f'Bearer {secret}')
    assert unnamed.status == 400, unnamed
    assert unnamed.json()['hint'] == ('add workspace=NAME to the query, on the command line -w NAME, '
                                      'in a definition workspace: NAME; the token is of "acme"'), unnamed
    assert listener.ask(f'/v1/executions/{made.json()["id"]}', authorization=f'Bearer {secret}').status == 200
    assert listener.ask(f'/v1/executions/{theirs}', authorization=f'Bearer {secret}').status == 404
    short = listener.ask(f'/v1/executions/{made.json()["id"][:13]}', authorization=f'Bearer {secret}')
    assert short.status == 404 and 'whole ids' in short.json()['hint'], short
    misspelt = listener.ask('/v1/executions?worspace=acme', authorization=f'Bearer {secret}')
    assert misspelt.status == 400 and misspelt.json()['hint'] == 'did you mean "workspace"?', misspelt
    beside = listener.ask('/v1/workspaces/acme/executions', 'POST', body={'workflow': 'hello', 'workspace': 'tiny'},
                          authorization=f'Bearer {secret}')
    assert beside.status == 400, beside
    assert len(weir.items('list', '-w', 'tiny')) == 1
    listener.stop()


def a_new_token_is_accepted_after_a_miss_of_another(weir):
    """The set of tokens is read for both of them."""
    weir.make_store()
    _token(weir, 'first', 'read')
    listener = Listener(weir).ready()
    client = Client(listener)
    for name in ('second', 'third'):
        secret = _token(weir, name, 'read')
        _assert_401(client.ask('GET', '/v1/executions', 'weir_' + 'E' * 43))
        another = _token(weir, f'{name}-too', 'read')
        assert client.ask('GET', '/v1/executions', secret).status == 200
        assert client.ask('GET', '/v1/executions', another).status == 200
    listener.stop()


def requests_of_one_token_that_wait_leave_places_for_others(weir):
    weir.make_store()
    execution = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    many, other = _token(weir, 'many', 'read'), {'authorization': 'Bearer ' + _token(weir, 'other', 'read')}
    # A quarter of the descriptors for connections, half of these for waits, and half of the waits with one token.
    weir.write('limited', f'#!/bin/sh\nulimit -n 512\nexec {shlex.quote(weir.binary)} "$@"\n')
    os.chmod(weir.path('limited'), 0o700)
    weir.binary, binary = weir.path('limited'), weir.binary
    listener = Listener(weir).ready()
    weir.binary = binary
    with selectors.DefaultSelector() as selector:
        for _ in range(33):
            connection = listener.connect()
            connection.sendall(f'GET /v1/executions/{execution}?wait=5m HTTP/1.1\r\nHost: localhost\r\n'
                               f'Authorization: Bearer {many}\r\n\r\n'.encode())
            selector.register(connection, selectors.EVENT_READ)
        (key, _), = selector.select(SECONDS)
        refused = read_answer(key.fileobj)
        assert (refused.status, refused.json()['code']) == (429, 'rate_limited'), refused
        assert 'wait for ends' in refused.json()['detail'], refused
        assert listener.ask(f'/v1/executions/{execution}?wait=10ms', **other).status == 200
        weir.good('cancel', execution, '-q')
        selector.unregister(key.fileobj)
        key.fileobj.close()
        for connection in [key.fileobj for key in selector.get_map().values()]:
            assert read_answer(connection).json()['status'] == 'CANCELLED'
            connection.close()
    listener.stop()


def _lives(weir):
    """A token that is made while a server runs is accepted at once, refused after its revocation, and its use is noted."""
    weir.make_store()
    listener = Listener(weir).ready()
    client = Client(listener)
    path = '/v1/executions?workspace=acme'
    assert client.ask('GET', path).status == 200  # there was no token yet
    secret = _token(weir, 'ci', 'read')
    assert client.ask('GET', path, secret).status == 200
    wait_for('the listener to ask for tokens', lambda: client.ask('GET', path).status == 401, pause=SHORT)
    wait_for('the last use', lambda: weir.items('token', 'list')[0]['last_used_at'], pause=SHORT)
    weir.good('token', 'revoke', 'ci', '-q')
    wait_for('the revocation', lambda: client.ask('GET', path, secret).status == 401, pause=SHORT)
    _assert_401(client.ask('GET', path))  # it does not open again
    assert client.ask('GET', '/livez').status == 200
    listener.stop()
    Listener(weir).ready().stop()


def a_token_lives_on_sqlite(weir):
    _lives(weir)


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def a_token_lives_on_postgres(weir):
    _use_postgres(weir)
    _lives(weir)


def _complete(listener, worker, task, field):
    answer = listener.ask('/v1/tasks:complete', 'POST', body={'worker': worker, 'tasks': [{'task': task['task']}]}, **field)
    assert answer.status == 200, answer


def a_worker_needs_a_token_of_all_workspaces(weir):
    """Else it would draw the executions of other workspaces to the node, where nobody may run them."""
    weir.make_store()
    weir.write('job.yaml', json.dumps({'name': 'job', 'steps': {'only': {'handler': 'job'}}}))
    weir.good('workflow', 'apply', 'job.yaml', '-q')
    execution = weir.enqueue('-w', 'tiny', 'job')
    narrow = {'authorization': 'Bearer ' + _token(weir, 'narrow', 'admin', '-w', 'acme')}
    wide = {'authorization': 'Bearer ' + _token(weir, 'wide', 'operate')}
    weir.environment['WEIR_HTTP_TASK_LEASE'] = '10m'
    listener = Listener(weir).ready()
    claim = {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}
    for verb in ('claim', 'heartbeat', 'complete', 'fail', 'leave'):
        answer = listener.ask(f'/v1/tasks:{verb}', 'POST', body=claim if verb == 'claim' else {}, **narrow)
        assert (answer.status, answer.json()['code']) == (403, 'not_permitted'), (verb, answer)
    why = weir.good('why', execution, '--json').json()
    assert why['pending_reason'] == 'no_worker', why
    task, = listener.ask('/v1/tasks:claim', 'POST', body=claim, **wide).json()['tasks']
    assert task['execution_id'] == execution, task
    _complete(listener, 'w1', task, wide)
    listener.stop()


def a_request_that_waited_is_refused_when_its_token_has_ended(weir):
    """A claim and a wait for an end: neither is answered with what came after the revocation, and the task that woke the
    claim goes to the next one."""
    weir.make_store()
    weir.write('job.yaml', json.dumps({'name': 'job', 'steps': {'only': {'handler': 'job'}}}))
    weir.good('workflow', 'apply', 'job.yaml', '-q')
    late = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    secrets = [_token(weir, name, 'operate') for name in ('ended', 'good', 'waits')]
    weir.environment['WEIR_HTTP_TASK_LEASE'] = '10m'
    listener = Listener(weir).ready()
    fields = [{'authorization': f'Bearer {secret}'} for secret in secrets]

    def has_handler(name):
        return weir.database().execute("SELECT 1 FROM nodes WHERE handlers LIKE ?", (f'%"{name}"%',)).fetchone()
    with ThreadPoolExecutor(3) as pool:
        claims = []
        for number in range(2):
            claim = {'worker': f'w{number}', 'handlers': ['job', f'of-{number}'], 'wait_us': 60000000}
            claims.append(pool.submit(listener.ask, '/v1/tasks:claim', 'POST', body=claim, **fields[number]))
            wait_for('the worker', lambda: has_handler(f'of-{number}'), pause=SHORT)  # from then on the claim waits
        end = pool.submit(listener.ask, f'/v1/executions/{late}?wait=60s', **fields[2])
        wait_for('the use of the token', lambda: weir.database().execute(
            "SELECT last_used_at FROM tokens WHERE name = 'waits'").fetchone()[0], pause=SHORT)
        for name, field in (('ended', fields[0]), ('waits', fields[2])):
            weir.good('token', 'revoke', name, '-q')
            wait_for('the revocation', lambda: listener.ask('/v1/executions', **field).status == 401, pause=SHORT)
        execution = weir.enqueue('-w', 'acme', 'job')
        weir.good('cancel', late, '-q')
        answers = [claim.result(SECONDS) for claim in claims]
        _assert_401(answers[0])
        task, = answers[1].json()['tasks']
        assert task['execution_id'] == execution, task
        _complete(listener, 'w1', task, fields[1])
        _assert_401(end.result(SECONDS))
    listener.stop()


def the_actor_of_an_act_is_the_token(weir):
    acts = [(method, path, body) for method, path, role, workspace, body in _routes(weir)
            if workspace == 'id' and path.endswith('/cancel')]
    weir.make_store()
    execution = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    secret = _token(weir, 'ops', 'operate')
    listener = Listener(weir).ready()
    assert len(acts) == 1, acts
    for method, path, body in acts:
        answer = Client(listener).ask(method, _fill(path, 'acme', execution), secret, body, Weir_Reason='by hand')
        assert answer.status < 300, answer
        act = weir.items('audit', '--act', 'cancel')[0]
        assert (act['actor'], act['reason']) == ('token:ops', 'by hand'), act
    listener.stop()


def a_token_sees_the_bulk_acts_of_its_workspaces_alone(weir):
    weir.make_store()
    weir.enqueue('-w', 'acme', 'hello')
    weir.enqueue('-w', 'tiny', 'hello')
    secrets = {name: _token(weir, name, 'operate', '-w', name) for name in ('acme', 'tiny')}
    secrets['all'] = _token(weir, 'all', 'operate')
    listener = Listener(weir).ready()

    def ask(path, name, method='GET', **fields):
        return listener.ask(path, method, authorization=f'Bearer {secrets[name]}', **fields)

    def begin(name, filter):
        answer = ask('/v1/bulk', name, 'POST', body={'action': 'retry', 'filter': filter})
        assert answer.status == 202, answer
        return answer.json()['id']

    ids = {'acme': begin('acme', {'workspace': 'acme'}), 'tiny': begin('tiny', {'workspace': 'tiny'}),
           'all': begin('all', {'status': 'CANCELLED'})}
    for name, seen in (('acme', [ids['acme']]), ('tiny', [ids['tiny']]), ('all', [ids['all'], ids['tiny'], ids['acme']])):
        assert [job['id'] for job in ask('/v1/bulk', name).json()['items']] == seen, name
    for method in ('GET', 'DELETE'):
        for id in (ids['tiny'], ids['all']):
            foreign = ask(f'/v1/bulk/{id}', 'acme', method)
            assert (foreign.status, foreign.json()['code']) == (404, 'not_found'), foreign
            _same(foreign, ask(f'/v1/bulk/{MISSING}', 'acme', method), (id, MISSING))
    listener.stop()


def a_token_sees_and_dismisses_the_failures_of_its_workspaces_alone(weir):
    weir.make_store()
    weir.write('bad.json', json.dumps({'name': 'bad', 'steps': {'a': {'exec': ['false']}}}))
    weir.good('workflow', 'apply', 'bad.json', '-q')
    node = weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn'})
    ids = {name: weir.ended(weir.enqueue('-w', name, 'bad'))['id'] for name in ('acme', 'tiny')}
    node.terminate()
    node.wait()
    secrets = {'acme': _token(weir, 'acme', 'operate', '-w', 'acme'),
               'reader': _token(weir, 'reader', 'read', '-w', 'acme'),
               'two': _token(weir, 'two', 'operate', '-w', 'acme', '-w', 'tiny')}
    listener = Listener(weir).ready()

    def ask(path, name, method='GET', **fields):
        return listener.ask(path, method, authorization=f'Bearer {secrets[name]}', **fields)

    def seen(name):
        """The groups that the token gets, workspace by workspace; all at once it gets none."""
        whole = ask('/v1/failures', name)
        assert 400 <= whole.status < 500 and ids['tiny'] not in whole.body.decode(), whole
        pages = [ask(f'/v1/failures?workspace={workspace}', name) for workspace in ids]
        return [group['workspace'] for page in pages if page.status == 200 for group in page.json()['items']]
    assert (seen('acme'), seen('reader'), seen('two')) == (['acme'], ['acme'], ['acme', 'tiny'])
    foreign = ask('/v1/failures?workspace=tiny', 'acme')
    assert foreign.status in (403, 404) and ids['tiny'] not in foreign.body.decode(), foreign
    _same(foreign, ask('/v1/failures?workspace=zzzz', 'acme'), ('tiny', 'zzzz'))
    foreign = ask(f'/v1/executions/{ids["tiny"]}/dismiss', 'acme', 'POST')
    assert foreign.status == 404, foreign
    _same(foreign, ask(f'/v1/executions/{MISSING}/dismiss', 'acme', 'POST'), (ids['tiny'], MISSING))
    assert ask(f'/v1/executions/{ids["acme"]}/dismiss', 'reader', 'POST').status == 403
    assert seen('two') == ['acme', 'tiny']
    foreign = ask('/v1/executions:act?workspace=tiny', 'acme', 'POST', body={'action': 'dismiss'})
    assert 400 <= foreign.status < 500, foreign
    assert ask(f'/v1/executions/{ids["tiny"]}/dismiss', 'two', 'POST').status == 202
    assert seen('two') == ['acme'] and weir.good('failures', '--json').json()['executions_read'] == 1
    listener.stop()


def too_many_refused_attempts_of_an_address_are_refused_sooner(weir):
    weir.make_store()
    secret = _token(weir, 'ci', 'read')
    listener = Listener(weir).ready()
    client = Client(listener)
    answers = [client.ask('GET', '/v1/executions', 'weir_' + 'B' * 43, source='127.9.9.9') for _ in range(60)]
    assert [answer.status for answer in answers[:20]] == [401] * 20, answers[:20]
    limited = [answer for answer in answers if answer.status == 429]
    assert limited and all(answer.json()['code'] == 'rate_limited' for answer in limited), answers
    assert all(int(answer.head['retry-after']) >= 1 for answer in limited), limited
    assert client.ask('GET', '/v1/executions', secret, source='127.9.9.9').status == 200  # valid ones are not affected
    _assert_401(client.ask('GET', '/v1/executions', source='127.9.9.8'))
    listener.stop()


def a_token_that_is_too_fast_is_told_when_to_come_back(weir):
    weir.make_store()
    secret, another = _token(weir, 'ci', 'read'), _token(weir, 'another', 'read')
    weir.environment['WEIR_HTTP_RATE'] = '1'
    listener = Listener(weir).ready()
    client = Client(listener)
    answers = [client.ask('GET', '/v1/executions', secret) for _ in range(50)]
    assert answers[0].status == 200 and {answer.status for answer in answers} == {200, 429}, answers
    slow = next(answer for answer in answers if answer.status == 429)
    assert slow.json()['code'] == 'rate_limited' and slow.head['retry-after'] == '1', slow
    assert client.ask('GET', '/v1/executions', another).status == 200
    listener.stop()


def a_rate_of_a_token_counts_beside_that_of_the_server(weir):
    weir.make_store()
    slow, fast = _token(weir, 'slow', 'read', '--all-workspaces', '--rate', '1'), _token(weir, 'fast', 'read')
    listener = Listener(weir).ready()
    client = Client(listener)
    answers = [client.ask('GET', '/v1/executions', slow) for _ in range(50)]
    assert answers[0].status == 200 and {answer.status for answer in answers} == {200, 429}, answers
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.json()['code'] == 'rate_limited' and refused.head['retry-after'] == '1', refused
    assert {client.ask('GET', '/v1/executions', fast).status for _ in range(50)} == {200}
    listener.stop()


def a_large_body_without_a_known_token_is_not_read(weir):
    weir.make_store()
    _token(weir, 'ci', 'admin')
    listener = Listener(weir).ready()
    for line in ('', 'Authorization: Bearer weir_' + 'C' * 43 + '\r\n'):
        with listener.connect() as connection:
            connection.sendall(f'POST /v1/workspaces/acme/executions HTTP/1.1\r\nHost: localhost\r\n{line}'
                               'Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n'.encode())
            _assert_401(read_answer(connection))
            assert is_closed(connection)
    listener.stop()


def a_body_beyond_the_limit_of_its_token_is_not_read(weir):
    """The first request of a token that the server may not know yet has its body, the second one announces it alone."""
    weir.make_store()
    listener = Listener(weir).ready()
    body = json.dumps({'workflow': 'hello', 'params': {}}).encode()
    secret = _token(weir, 'small', 'enqueue', '-w', 'acme', '--max-body-bytes', str(len(body)))
    for sent, length, status in ((body + b' ', len(body) + 1, 413), (b'', len(body) + 1, 413), (body, len(body), 202)):
        with listener.connect() as connection:
            connection.sendall('\r\n'.join((
                'POST /v1/workspaces/acme/executions HTTP/1.1', 'Host: localhost', f'Authorization: Bearer {secret}',
                'Content-Type: application/json', f'Content-Length: {length}', '', '')).encode() + sent)
            answer = read_answer(connection)
            assert answer.status == status, (length, answer)
            if status == 413:
                problem = answer.json()
                assert problem['code'] == 'body_too_large' and problem['hint'], problem
                assert f'{len(body)} bytes' in problem['detail'] and '"small"' in problem['detail'], problem
                assert sent or is_closed(connection)
    admin = _token(weir, 'ops', 'admin')
    assert Client(listener).ask('GET', '/v1/tokens?name=small', admin).json()['items'][0]['max_body_bytes'] == len(body)
    listener.stop()


def where_no_token_is_needed_the_host_is_this_machine(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    client = Client(listener)
    for path in ('/v1/executions', '/metrics', '/livez'):
        assert client.ask('GET', path, host='evil.example').status == 421, path
    secret = _token(weir, 'ci', 'read')
    assert client.ask('GET', '/v1/executions', secret, host='weir.example').status == 200
    assert client.ask('GET', '/livez', secret, host='evil.example').status == 421
    listener.stop()


def a_setting_lets_this_machine_in(weir):
    weir.make_store()
    _token(weir, 'ci', 'read')
    weir.environment['WEIR_HTTP_ANONYMOUS'] = 'true'
    listener = Listener(weir).ready()
    client = Client(listener)
    assert client.ask('GET', '/v1/executions').status == 200
    _assert_401(client.ask('GET', '/v1/executions', 'weir_' + 'D' * 43))
    listener.stop()


def a_node_for_development_lets_this_machine_in(weir):
    weir.make_store()
    _token(weir, 'ci', 'read')
    path = weir.path('http.sock')
    node = weir.spawn('dev', '-q', '--listen', f'unix:{path}')

    def ask():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SECONDS)
            try:
                connection.connect(path)
            except OSError:
                return None  # it has not begun to listen
            connection.sendall(b'GET /v1/executions HTTP/1.1\r\nHost: localhost\r\n\r\n')
            return read_answer(connection)
    assert wait_for('an answer', ask, pause=SHORT).status == 200
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS) == 0


def an_address_of_other_machines_always_needs_a_token(weir):
    weir.make_store()
    weir.environment.update({'WEIR_HTTP_BEHIND_PROXY': 'true', 'WEIR_HTTP_ANONYMOUS': 'true'})
    for listen in ('127.0.0.1:0', '0.0.0.0:0'):  # a connection from this machine is the proxy's
        listener = Listener(weir, listen=listen)
        client = Client(listener)
        assert client.ask('GET', '/livez', host='weir.example').status == 200
        _assert_401(client.ask('GET', '/v1/executions'))
        secret = _token(weir, listen, 'read')
        assert client.ask('GET', '/v1/executions', secret, host='weir.example').status == 200
        listener.stop()


def _refuses_an_open_start(weir):
    result = weir.run('serve', '--listen', '0.0.0.0:0')
    assert result.code == 2, result
    assert re.search(r'"0\.0\.0\.0:\d+" is open to other machines, and the store has no token', result.err), result
    assert 'weir token create' in result.err, result
    assert weir.good('node', 'list', '--all', '--json').json()['items'] == [], result  # it has not begun to work


def _without_a_token_no_node_is_open_to_other_machines(weir):
    weir.make_store()
    weir.environment.update({'WEIR_HTTP_BEHIND_PROXY': 'true', 'WEIR_HTTP_ANONYMOUS': 'true'})
    _refuses_an_open_start(weir)
    Listener(weir, listen='127.0.0.1:0').stop()
    _token(weir, 'short', 'read', '--all-workspaces', '--expires-at', '1s')
    wait_for('the end of the token', lambda: weir.items('token', 'list')[0]['state'] == 'expired')
    listener = Listener(weir, listen='0.0.0.0:0')  # else a restart would end the dispatch of the node
    _assert_401(Client(listener).ask('GET', '/v1/executions'))
    listener.stop()
    weir.good('token', 'revoke', 'short', '-q')
    Listener(weir, listen='0.0.0.0:0').stop()


def without_a_token_no_node_is_open_to_other_machines_on_sqlite(weir):
    _without_a_token_no_node_is_open_to_other_machines(weir)


def without_a_token_no_node_is_open_to_other_machines_on_postgres(weir):
    _use_postgres(weir)
    _without_a_token_no_node_is_open_to_other_machines(weir)


def a_secret_is_in_no_log_and_no_answer(weir):
    weir.make_store()
    secret = _token(weir, 'ci', 'read', '-w', 'acme')
    weir.environment['WEIR_LOG_LEVEL'] = 'debug'
    listener = Listener(weir).ready()
    client = Client(listener)
    answers = [client.ask('GET', path, secret) for path in
               ('/v1/executions?workspace=acme', '/v1/executions', '/metrics', '/v1/executions?x=y&workspace=acme')]
    listener.stop()
    for name in ('node.out', 'node.err'):
        with open(weir.path(name)) as file:
            assert secret[5:] not in file.read(), name
    assert all(secret[5:].encode() not in answer.body for answer in answers)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
