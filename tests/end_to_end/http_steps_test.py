#!/usr/bin/env python3
"""Steps that send HTTP requests: what a server gets, how its answers end a step, and that no request goes elsewhere.

The servers are on addresses of 127.0.0.0/8. The node may reach 127.0.0.5 alone; a canary listens at the same port of
127.0.0.1 and counts what it gets.

usage: http_steps_test.py BINARY [--postgres] [TEST ...]
"""

import hashlib
import hmac
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading

from harness import TIMEOUT_SECONDS, run_tests
from http_client import LONG_LEASE
from ports import free_port
from postgres_server import PostgresServer
from waiting import wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
ALLOWED, FORBIDDEN = '127.0.0.5', '127.0.0.1'
SECRET = 'whsec-4f1c9a'
# Loopback in the spellings that URLs and resolvers know, and addresses of other machines that are not public.
HOSTILE = ['127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1', '017700000001',
           '0x7f.0x0.0x0.0x1', '127.0.0.1.', '0', '0.0.0.0', '0x0', '[::1]', '[::]', '[0:0:0:0:0:0:0:1]',
           '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::ffff:0.0.0.0]', '[64:ff9b::7f00:1]', '[2002:7f00:1::1]',
           '[::127.0.0.1]', '[fe80::1]', '[fd00:ec2::254]', '169.254.169.254', '2852039166', '0xa9fea9fe',
           '[::ffff:169.254.169.254]', '100.100.100.200', '168.63.129.16', '10.0.0.1', '172.16.0.1', '192.168.0.1',
           '100.64.0.1', '224.0.0.1', '255.255.255.255', '198.18.0.1', 'localhost', 'LOCALHOST', 'localhost.',
           '127.0.0.1%00.example.com', '127.0.0.1%2f', '①②⑦.⓪.⓪.①', '127。0。0。1', 'user@127.0.0.1', 'a:b@127.0.0.5',
           '127.0.0.5@127.0.0.1', '127.0.0.1#@127.0.0.5', '127.0.0.1\\@127.0.0.5', '127.0.0.5\\.evil', ' 127.0.0.1',
           '127.0.0.1\t', '[::1%25lo]', '[127.0.0.1]', '127.0.0.1:1:2', '']


class Server:
    """An HTTP server in threads. `answer(request)` gives (status, headers, body) for the requests in their order; a request
    is a dict with method, path, headers and body. The body may be a function that writes to the connection itself."""

    def __init__(self, answer, address=ALLOWED, port=0):
        self.requests, self.connections, self.lock = [], 0, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def handle(self):
                with outer.lock:
                    outer.connections += 1
                super().handle()

            def do_any(self):
                length = int(self.headers.get('Content-Length') or 0)
                request = {'method': self.command, 'path': self.path, 'headers': dict(self.headers.items()),
                           'body': self.rfile.read(length)}
                with outer.lock:
                    outer.requests.append(request)
                status, headers, body = answer(request)
                body = b'' if status == 204 else body
                if callable(body):
                    self.close_connection = True
                    body(self)
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(b'' if self.command == 'HEAD' else body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_any

            def log_message(self, *_):
                pass

        class Threads(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # the client went away, as some tests want

        self.server = Threads((address, port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f'http://{address}:{self.port}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def _json(value, status=200, **headers):
    return status, {'Content-Type': 'application/json', **headers}, json.dumps(value).encode()


def _store(weir, allow=f'[{ALLOWED}]', more=''):
    global SERVER
    if POSTGRES:
        if SERVER is None:
            SERVER = PostgresServer()
        weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())
    weir.environment.update(LONG_LEASE)  # a node that is late must not send a request again
    weir.make_store()
    weir.write('weir.yaml', f'http_step.allow: {allow}\ndispatch.poll_interval: 100ms\nlog.format: json\n{more}')


def _stub(weir):
    """The environment of a node for which names mean what the file `hosts` says."""
    return {**weir.preload(os.environ['WEIR_STUB_RESOLVER']), 'WEIR_STUB_HOSTS': weir.path('hosts')}


def _apply(weir, name, steps):
    weir.write('workflow.json', json.dumps({'name': name, 'steps': steps}))
    weir.good('workflow', 'apply', 'workflow.json', '-q')


def _step(weir, id, name='call'):
    return next((step for step in weir.show(id)['steps'] if step['step'] == name), {})


def _run(weir, name, params=None):
    """Runs one execution to its end; what `show --json` has of it."""
    id = weir.enqueue('-w', 'acme', name, '-p', json.dumps(params or {}))
    weir.run('wait', id)
    return weir.show(id)


def _call(weir, http, params=None, name='one', **step):
    """The same for a workflow of one http step."""
    _apply(weir, name, {'call': {'http': http, **step}})
    return _run(weir, name, params)


def a_server_gets_the_request_and_its_json_is_the_output(weir):
    server = Server(lambda request: _json({'total': 7, 'list': [1, None]}, status=201))
    _store(weir)
    weir.spawn('serve')
    _apply(weir, 'order', {
        'call': {'http': {'url': server.url + '/orders/${.input.id}/items?q=${.input.q}', 'method': 'PUT',
                          'headers': {'X-Tenant': '${.execution.workspace}', 'X-Empty': ''},
                          'body': {'amount': '${.input.amount}', 'list': [1, '${.input.id}']}}},
        'after': {'needs': ['call'], 'http': {'url': server.url + '/total/${.steps.call.output.total}'}}})
    shown = _run(weir, 'order', {'id': 'a/../b?c#d e\u00e9', 'q': '1&admin=2', 'amount': 5})
    assert shown['status'] == 'COMPLETED', shown
    first, second = server.requests
    assert first['method'] == 'PUT' and first['path'] == '/orders/a%2F..%2Fb%3Fc%23d%20e%C3%A9/items?q=1%26admin%3D2', first
    assert json.loads(first['body']) == {'amount': 5, 'list': [1, 'a/../b?c#d e\u00e9']}, first
    headers = first['headers']
    assert headers['Content-Type'] == 'application/json' and headers['X-Tenant'] == 'acme', headers
    assert headers['X-Empty'] == '', headers
    assert headers['Idempotency-Key'] == shown['id'] + '-call' and headers['Weir-Execution'] == shown['id'], headers
    assert headers['Weir-Step'] == 'call' and headers['Weir-Attempt'] == '1' and int(headers['Weir-Fence']) > 0, headers
    assert 'Expect' not in headers and 'Weir-Signature' not in headers and 'Authorization' not in headers, headers
    assert second['method'] == 'GET' and second['path'] == '/total/7' and second['body'] == b'', second
    assert 'Content-Type' not in second['headers'], second
    logs = weir.good('logs', shown['id']).out
    assert f'PUT {server.url}/orders/a%2F..%2Fb%3Fc%23d%20e%C3%A9/items: status 201' in logs and 'admin' not in logs, logs


def an_answer_that_is_no_json_becomes_status_and_body(weir):
    answers = {'/text': (200, {}, b'two\nlines'), '/none': (204, {}, b''), '/bytes': (200, {}, b'\xff\x00a'),
               '/head': (200, {}, b'never sent')}
    server = Server(lambda request: answers[request['path']])
    _store(weir)
    weir.spawn('serve')
    for path, expected in (('/text', {'status': 200, 'body': 'two\nlines'}), ('/none', {'status': 204, 'body': ''}),
                           ('/bytes', {'status': 200, 'body': '??a'})):
        shown = _call(weir, {'url': server.url + path, 'method': 'DELETE' if path == '/none' else 'GET'}, name=path[1:])
        assert shown['status'] == 'COMPLETED' and shown['steps'][0]['output'] == expected, shown
    shown = _call(weir, {'url': server.url + '/head', 'method': 'HEAD'}, name='head')
    assert shown['steps'][0]['output'] == {'status': 200, 'body': ''}, shown
    text = _call(weir, {'url': server.url + '/text', 'body': 'plain ${.input.x}'}, {'x': 'X'}, name='raw')
    assert text['status'] == 'COMPLETED', text
    last = server.requests[-1]
    assert last['method'] == 'POST' and last['body'] == b'plain X', last
    assert last['headers']['Content-Type'] == 'text/plain; charset=utf-8', last


def secrets_go_into_headers_and_the_signature_and_nowhere_else(weir):
    server = Server(lambda request: _json({'echo': request['headers']}))
    _store(weir, more='secrets.directory: secrets\nlog.level: debug\n')
    os.mkdir(weir.path('secrets'))
    for name in ('hook', 'token', 'key'):
        weir.write(f'secrets/{name}', f'{SECRET}-{name}\n')
        os.chmod(weir.path(f'secrets/{name}'), 0o600)
    with open(weir.path('log'), 'wb') as log:
        weir.spawn('serve', stdout=log, stderr=log)
    body = {'a': 1, 'b': 'ä'}
    shown = _call(weir, {'url': server.url, 'body': body, 'sign': 'hook', 'bearer': 'token'}, secrets={'X-Api-Key': 'key'})
    assert shown['status'] == 'COMPLETED', shown
    request = server.requests[0]
    headers = request['headers']
    assert headers['Authorization'] == f'Bearer {SECRET}-token' and headers['X-Api-Key'] == f'{SECRET}-key', headers
    parts = dict(part.split('=', 1) for part in headers['Weir-Signature'].split(','))
    signed = parts['t'].encode() + b'.' + request['body']
    assert parts['v1'] == hmac.new(f'{SECRET}-hook'.encode(), signed, hashlib.sha256).hexdigest(), headers
    began = shown['steps'][0]['output']['echo']
    assert began['Authorization'] == 'Bearer ***' and began['X-Api-Key'] == '***', began
    every = repr(weir.run('show', shown['id'], '--json')) + repr(weir.run('logs', shown['id']))
    with open(weir.path('log'), 'rb') as log:
        every += repr(log.read())
    assert SECRET not in every, every


def a_request_waits_for_its_secret(weir):
    server = Server(lambda request: _json({}))
    _store(weir, more='secrets.directory: secrets\n')
    os.mkdir(weir.path('secrets'))
    weir.spawn('serve')
    _apply(weir, 'one', {'call': {'http': {'url': server.url, 'bearer': 'token'}}})
    id = weir.enqueue('-w', 'acme', 'one')
    wait_for('the refusal', lambda: weir.show(id)['error_code'] == 'secret_missing')
    assert server.connections == 0
    os.rename(weir.write('token', 'two\nlines'), weir.path('secrets/token'))  # whole at once
    weir.release(id)
    weir.run('wait', id)
    shown = weir.show(id)
    assert shown['error_code'] == 'http_failed' and 'control character' in str(shown['error']), shown
    assert server.connections == 0


def statuses_decide_about_the_next_attempt(weir):
    answers = iter([(408, {}, b''), (425, {}, b''), (429, {}, b''), (500, {}, b'first'), (503, {}, b''), _json('done')])
    server = Server(lambda request: next(answers))
    _store(weir)
    weir.spawn('serve')
    retry = {'attempts': 6, 'backoff': '0'}
    shown = _call(weir, {'url': server.url, 'method': 'POST'}, retry=retry)
    assert shown['status'] == 'COMPLETED' and shown['steps'][0]['attempt'] == 6, shown
    assert [request['headers']['Weir-Attempt'] for request in server.requests] == list('123456')
    assert {request['headers']['Idempotency-Key'] for request in server.requests} == {shown['id'] + '-call'}
    for status in (400, 401, 404, 409, 422, 302):
        server = Server(lambda request: (status, {'Location': '/'}, f'no {status}: \x1b[31m'.encode()))
        shown = _call(weir, {'url': server.url}, name=f's{status}', retry=retry)
        assert shown['status'] == 'FAILED' and shown['error_code'] == f'http_{status}', shown
        assert f'status {status}: no {status}: ' in shown['error'] and '\x1b' not in shown['error'], shown
        assert len(server.requests) == 1, server.requests
    answers = iter([(503, {}, b''), (404, {}, b'')])
    server = Server(lambda request: next(answers))
    shown = _call(weir, {'url': server.url}, name='twice', retry={'attempts': 5, 'backoff': '0', 'not_on': ['http_503']})
    assert shown['error_code'] == 'http_503' and len(server.requests) == 1, shown


def retry_after_takes_the_place_of_the_backoff(weir):
    answers = iter([(429, {'Retry-After': '1'}, b''), (503, {'Retry-After': '100000'}, b'')])
    server = Server(lambda request: next(answers))
    _store(weir)
    weir.spawn('serve')
    _apply(weir, 'one', {'call': {'http': {'url': server.url}, 'retry': {'attempts': 5, 'backoff': '2h', 'max': '2h'}}})
    id = weir.enqueue('-w', 'acme', 'one')
    # The back-off of two hours does not end within this test.
    wait_for('the second attempt', lambda: len(server.requests) == 2)
    wait_for('its wait', lambda: _step(weir, id).get('status') == 'WAITING' and _step(weir, id).get('attempt') == 2)
    weir.good('cancel', id, '-q')
    weir.run('wait', id)


def expect_names_the_statuses_of_success(weir):
    server = Server(lambda request: _json({'found': False}, status=int(request['path'][1:])))
    _store(weir)
    weir.spawn('serve')
    http = {'url': server.url + '/${.input.status}', 'expect': ['200-204', 404]}
    for status, code in ((404, None), (204, None), (205, 'http_205'), (500, 'http_500')):
        shown = _call(weir, http, {'status': status})
        assert shown.get('error_code') == code and (code is not None or shown['status'] == 'COMPLETED'), shown


def redirects_are_followed_as_far_as_the_step_says(weir):
    other = Server(lambda request: _json({'at': 'other'}))

    def answer(request):
        path = request['path']
        if path.startswith('/hop'):
            left = int(path[4:])
            return (302 if left % 2 else 307), {'Location': f'/hop{left - 1}' if left > 1 else '/end'}, b''
        targets = {'/other': other.url + '/end', '/keep': other.url + '/end'}
        if path not in targets:
            return _json({'at': path})
        return 308 if path == '/keep' else 303, {'Location': targets[path]}, b''

    server = Server(answer)
    _store(weir, more='secrets.directory: secrets\n')
    os.mkdir(weir.path('secrets'))
    weir.write('secrets/token', SECRET)
    weir.spawn('serve')
    shown = _call(weir, {'url': server.url + '/hop5', 'redirects': 5})
    assert shown['steps'][0]['output'] == {'at': '/end'} and len(server.requests) == 6, shown
    shown = _call(weir, {'url': server.url + '/hop3', 'redirects': 2}, name='few')
    assert shown['error_code'] in ('http_302', 'http_307'), shown
    private = {'redirects': 1, 'body': {'a': 1}, 'headers': {'Cookie': 'private', 'X-Own': '1'}, 'bearer': 'token',
               'sign': 'token'}
    for path, method in (('/other', 'GET'), ('/keep', 'POST')):
        shown = _call(weir, {'url': server.url + path, **private}, name=path[1:])
        assert shown['steps'][0]['output'] == {'at': 'other'}, shown
        first, second = server.requests[-1], other.requests[-1]
        assert {'Cookie', 'X-Own', 'Authorization', 'Weir-Signature'} <= set(first['headers']), first
        assert not {'Cookie', 'X-Own', 'Authorization', 'Weir-Signature'} & set(second['headers']), second
        assert second['method'] == method and second['body'] == (b'{"a":1}' if method == 'POST' else b''), second
        assert second['headers']['Idempotency-Key'] == first['headers']['Idempotency-Key'], second


def no_url_leads_to_an_address_that_is_not_allowed(weir):
    canary = Server(lambda request: _json({}), FORBIDDEN, free_port())
    allowed = Server(lambda request: (302, {'Location': request['headers']['X-Target']}, b''), ALLOWED, canary.port)
    _store(weir)
    weir.write('hosts', '')
    weir.spawn('serve', env=_stub(weir))
    port = canary.port
    urls = [f'{scheme}://{host}:{port}/' for host in HOSTILE for scheme in ('http', 'HTTPS')]
    urls += [f'{scheme}://127.0.0.1:{port}/' for scheme in ('ftp', 'gopher', 'file', 'dict', 'ldap', 'smb', 'ws', '')]
    urls += ['file:///etc/passwd', '//127.0.0.1/', '127.0.0.1', 'javascript:1', 'http:127.0.0.1',
             f'http:/127.0.0.1:{port}', 'x' * 9000]
    _apply(weir, 'direct', {'call': {'http': {'url': '${.input.url}'}}})
    _apply(weir, 'hop', {'call': {'http': {'url': allowed.url, 'redirects': 3, 'headers': {'X-Target': '${.input.url}'}}}})
    lines = [json.dumps({'workspace': 'acme', 'workflow': 'direct', 'params': {'url': url}}) for url in urls]
    targets = [url for url in urls if url.isascii() and url.isprintable()]
    lines += [json.dumps({'workspace': 'acme', 'workflow': 'hop', 'params': {'url': url}}) for url in targets]
    assert len(lines) >= 150
    ids = weir.good('enqueue', '-', '-q', stdin='\n'.join(lines)).out.split()
    final = {'http_not_allowed', 'http_bad_url', 'expression_error'}
    for number, (id, url) in enumerate(zip(ids, urls + targets)):
        weir.run('wait', id)
        shown = weir.show(id)
        # A redirect without a usable target is an answer like any other.
        codes = final if number < len(urls) else final | {'http_302'}
        is_unknown = shown['error_code'] == 'http_unreachable' and 'Could not resolve host' in shown['error']
        assert shown['status'] == 'FAILED', (url, shown)
        assert shown['error_code'] in codes or is_unknown, (url, shown['error_code'], shown['error'])
    assert canary.connections == 0, canary.requests


def a_name_is_as_good_as_the_address_that_it_resolves_to(weir):
    canary = Server(lambda request: _json({'at': 'canary'}), FORBIDDEN, free_port())
    server = Server(lambda request: _json({'at': 'server'}), ALLOWED, canary.port)
    _store(weir)
    weir.write('hosts', f'own.test {ALLOWED}\nbad.test {FORBIDDEN}\nboth.test {FORBIDDEN} {ALLOWED}\n'
               f'turn.test {ALLOWED}\nturn.test {FORBIDDEN}\n')
    for first in (True, False):
        node = weir.spawn('serve', env=_stub(weir))
        for host, is_right in (('own.test', True), ('both.test', True), ('bad.test', False), ('turn.test', first)):
            shown = _call(weir, {'url': f'http://{host}:{canary.port}/'}, name=host.partition('.')[0])
            if is_right:
                assert shown['steps'][0]['output'] == {'at': 'server'}, shown
            else:
                assert shown['error_code'] == 'http_not_allowed', shown
                assert f'the address {FORBIDDEN} of the host "{host}"' in shown['error'], shown
        node.send_signal(signal.SIGTERM)
        node.wait(TIMEOUT_SECONDS)
    assert canary.connections == 0 and server.connections > 0


def a_listed_host_opens_no_private_address_and_no_other_host(weir):
    canary = Server(lambda request: _json({}), FORBIDDEN)
    _store(weir, allow="[good.test, '*.below.test']")
    weir.write('hosts', f'good.test {FORBIDDEN}\na.below.test {FORBIDDEN}\n')
    weir.spawn('serve', env=_stub(weir))
    for host, words in (('good.test', 'the address 127.0.0.1'), ('a.below.test', 'the address 127.0.0.1'),
                        ('below.test', 'the host "below.test"'), ('evil.test', 'the host "evil.test"')):
        shown = _call(weir, {'url': f'http://{host}:{canary.port}/'}, name=host.replace('.', '-'))
        assert shown['error_code'] == 'http_not_allowed' and words in shown['error'], shown
    assert canary.connections == 0


def a_node_sends_nothing_unless_it_is_opened(weir):
    server = Server(lambda request: _json({}))
    _store(weir, allow='false')
    node = weir.spawn('serve')
    shown = _call(weir, {'url': server.url})
    assert shown['error_code'] == 'http_not_allowed' and 'http_step.allow' in shown['error'], shown
    node.send_signal(signal.SIGTERM)
    node.wait(TIMEOUT_SECONDS)
    weir.write('weir.yaml', 'http_step.allow: true\n')
    weir.spawn('serve')
    shown = _call(weir, {'url': server.url}, name='two')
    assert shown['error_code'] == 'http_not_allowed' and '127.0.0.5' in shown['error'], shown
    assert server.connections == 0


def a_machine_without_libcurl_gives_the_execution_back(weir):
    server = Server(lambda request: _json({}))
    _store(weir)
    os.mkdir(weir.path('lib'))
    weir.write('lib/libcurl.so.4', '')
    node = weir.spawn('serve', env={'LD_LIBRARY_PATH': weir.path('lib')})
    _apply(weir, 'one', {'call': {'http': {'url': server.url}}})
    id = weir.enqueue('-w', 'acme', 'one')
    wait_for('the refusal', lambda: weir.show(id)['error_code'] == 'libcurl_missing')
    shown = weir.show(id)
    assert shown['status'] == 'PENDING' and 'apt-get install libcurl4' in weir.good('why', id).out, shown
    node.send_signal(signal.SIGTERM)
    node.wait(TIMEOUT_SECONDS)
    weir.spawn('serve')
    weir.release(id)
    weir.good('wait', id)
    assert len(server.requests) == 1


def proxies_and_password_files_of_the_environment_are_not_used(weir):
    canary = Server(lambda request: _json({}), FORBIDDEN)
    server = Server(lambda request: _json({}))
    _store(weir)
    weir.write('home/.netrc', f'machine {ALLOWED} login ada password {SECRET}\n')
    os.chmod(weir.path('home/.netrc'), 0o600)
    proxy = {name: canary.url for name in ('http_proxy', 'all_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY')}
    weir.spawn('serve', env=proxy)
    assert _call(weir, {'url': server.url})['status'] == 'COMPLETED'
    assert canary.connections == 0 and 'Authorization' not in server.requests[0]['headers'], server.requests


def a_slow_server_delays_nothing_but_its_own_step(weir):
    release = threading.Event()

    def answer(request):
        if request['path'] == '/slow':
            release.wait()
        return _json({})

    server = Server(answer)
    _store(weir)
    weir.spawn('serve')
    _apply(weir, 'slow', {'call': {'http': {'url': server.url + '/slow'}}})
    slow = [weir.enqueue('-w', 'acme', 'slow') for _ in range(3)]
    wait_for('the slow requests', lambda: len(server.requests) == 3)
    shown = _call(weir, {'url': server.url + '/fast'}, name='fast')
    assert shown['status'] == 'COMPLETED', shown
    assert all(_step(weir, id)['status'] == 'RUNNING' for id in slow)
    shown = _call(weir, {'url': server.url + '/slow'}, name='late', timeout='200ms', retry={'attempts': 2, 'backoff': '0'})
    assert shown['error_code'] == 'timeout' and shown['steps'][0]['attempt'] == 2, shown
    release.set()
    for id in slow:
        weir.good('wait', id)


def an_answer_without_an_end_is_cut(weir):
    def endless(piece, head=b''):
        def write(handler):
            try:
                handler.wfile.write(b'HTTP/1.1 200 OK\r\n' + head)
                while True:
                    handler.wfile.write(piece)
            except OSError:
                cut.append(piece)
        return write

    cut = []
    answers = {'/body': endless(b'x' * 65536, b'\r\n'), '/headers': endless(b'X-A: ' + b'y' * 1000 + b'\r\n'),
               '/line': endless(b'z' * 65536, b'X-A: '), '/status': endless(b'HTTP/1.1 100 Continue\r\n\r\n')}
    server = Server(lambda request: (200, {}, answers[request['path']]))
    _store(weir)
    weir.spawn('serve')
    for path in answers:
        shown = _call(weir, {'url': server.url + path}, name=path[1:], timeout='60s')
        assert shown['status'] == 'FAILED' and shown['error_code'] in ('output_too_large', 'http_unreachable'), shown
        wait_for('the end of the connection', lambda: len(cut) == list(answers).index(path) + 1)


def broken_answers_are_failures_that_may_pass(weir):
    def write(text):
        return lambda handler: handler.wfile.write(text)

    answers = [write(b''), write(b'no http at all\r\n\r\n'), write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort'),
               write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'), write(b'HTTP/1.1 999999 X\r\n\r\n')]
    pending = iter(answers)
    server = Server(lambda request: (200, {}, next(pending)))
    _store(weir)
    weir.spawn('serve')
    shown = _call(weir, {'url': server.url, 'method': 'POST'}, retry={'attempts': len(answers), 'backoff': '0'})
    assert shown['error_code'] == 'http_unreachable' and len(server.requests) == len(answers), shown
    with socket.socket() as listener:
        listener.bind((ALLOWED, 0))
        port = listener.getsockname()[1]  # nobody listens there
        shown = _call(weir, {'url': f'http://{ALLOWED}:{port}/'}, name='none')
        assert shown['error_code'] == 'http_unreachable', shown
    shown = _call(weir, {'url': server.url.replace('http', 'https')}, name='plain')
    assert shown['error_code'] == 'http_unreachable', shown


def a_certificate_that_nobody_vouches_for_gets_no_request(weir):
    server = Server(lambda request: _json({}))
    maker = os.environ['WEIR_MAKE_CERTIFICATE']
    subprocess.run([maker, weir.folder, 'own', '', f'IP:{ALLOWED}', '-60', '3600'], check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(weir.path('own.pem'), weir.path('own.key'))
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True, do_handshake_on_connect=False)
    _store(weir)
    weir.spawn('serve')
    shown = _call(weir, {'url': server.url.replace('http', 'https')})
    assert shown['error_code'] == 'http_unreachable' and 'certificate' in shown['error'], shown
    assert server.requests == []


def values_that_break_a_request_fail_the_step(weir):
    server = Server(lambda request: _json({}))
    _store(weir)
    weir.spawn('serve')
    for name, http, params, code in (
            ('line', {'headers': {'X-A': '${.input.v}'}}, {'v': 'a\r\nX-Evil: 1'}, 'expression_error'),
            ('dots', {'url': server.url + '/a/${.input.v}/b'}, {'v': '..'}, 'expression_error'),
            ('null', {'url': server.url + '/${.input.none}'}, {}, 'expression_error'),
            ('long', {'url': server.url + '/${.input.v}'}, {'v': '/' * 4000}, 'expression_error'),
            ('body', {'body': '${.input.none}'}, {}, 'expression_error'),
            ('empty', {'url': '${.input.v}'}, {'v': ''}, 'http_bad_url')):
        shown = _call(weir, {'url': server.url, **http}, params, name=name)
        assert shown['status'] == 'FAILED' and shown['error_code'] == code, shown
    assert server.connections == 0


def a_cancel_ends_the_request(weir):
    gone = threading.Event()

    def hold(handler):
        handler.connection.settimeout(TIMEOUT_SECONDS)
        if handler.connection.recv(1) == b'':
            gone.set()

    server = Server(lambda request: (200, {}, hold))
    _store(weir)
    weir.spawn('serve')
    _apply(weir, 'hold', {'call': {'http': {'url': server.url}}})
    id = weir.enqueue('-w', 'acme', 'hold')
    wait_for('the request', lambda: len(server.requests) == 1)
    weir.good('cancel', id, '-q')
    weir.run('wait', id)
    assert weir.show(id)['status'] == 'CANCELLED'
    assert gone.wait(TIMEOUT_SECONDS), 'the connection stayed open'


def another_node_repeats_the_request_with_the_same_key(weir):
    held = threading.Event()

    def answer(request):
        if len(server.requests) == 1:
            held.wait(TIMEOUT_SECONDS)
        return _json({'attempt': request['headers']['Weir-Attempt']})

    server = Server(answer)
    _store(weir)
    first = weir.spawn('serve', '--node', 'first')
    _apply(weir, 'one', {'call': {'http': {'url': server.url, 'method': 'POST'}}})
    id = weir.enqueue('-w', 'acme', 'one')
    wait_for('the request', lambda: len(server.requests) == 1)
    first.kill()
    weir.spawn('serve', '--node', 'second')
    weir.good('wait', id)
    before, after = (request['headers'] for request in server.requests)
    assert before['Idempotency-Key'] == after['Idempotency-Key'] == id + '-call'
    assert (before['Weir-Attempt'], after['Weir-Attempt']) == ('1', '2')
    assert int(after['Weir-Fence']) > int(before['Weir-Fence'])
    held.set()


def a_stopping_node_gives_the_request_to_another(weir):
    held = threading.Event()

    def answer(request):
        if len(server.requests) == 1:
            held.wait(TIMEOUT_SECONDS)
        return _json({})

    server = Server(answer)
    _store(weir, more='stop.grace: 0\n')
    first = weir.spawn('serve', '--node', 'first')
    _apply(weir, 'one', {'call': {'http': {'url': server.url}}})
    id = weir.enqueue('-w', 'acme', 'one')
    wait_for('the request', lambda: len(server.requests) == 1)
    first.send_signal(signal.SIGTERM)
    assert first.wait(TIMEOUT_SECONDS) == 1  # stop.grace is over
    weir.spawn('serve', '--node', 'second')
    weir.good('wait', id)
    assert [request['headers']['Weir-Attempt'] for request in server.requests] == ['1', '2']
    held.set()


if __name__ == '__main__':
    code = run_tests(sys.modules[__name__], sys.argv[1])
    if SERVER is not None:
        SERVER.close()
    sys.exit(code)
