#!/usr/bin/env python3
"""No output has a secret: every route, the log at its lowest level, spans, metrics, commands and the texts of errors.

Each secret that weir gets is a canary of its own: tokens, secrets of steps, keys of signatures, tokens of callbacks, the
password of a store's URL, and what a client sends as a wrong token. Steps and servers show theirs wherever they can.

usage: canaries_test.py BINARY [--postgres] [TEST ...]
"""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse

from harness import TIMEOUT_SECONDS, run_tests
from http_client import Listener, read_answer
from http_steps_test import ALLOWED, Server
from postgres_server import PostgresServer, client_program
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
PASSWORD = 'canary-password-5c1'
# Shown in its output, its errors and its result.
LEAK = 'echo "out $KEY"; echo "err $KEY" >&2; echo "{\\"key\\": \\"$KEY\\"}"; exit $1'
VISIBLE = 'visible-param-91'  # no secret: the outputs of a test that looks nowhere would not have it
# The commands that print and end. `weir demo`, `dev`, `serve` and `top` run until they are stopped.
READS = ['status', 'doctor', 'list', 'list --wide', 'failures', 'audit', 'audit --json', 'workspace list', 'plan list',
         'workflow list', 'node list', 'worker list', 'lock list', 'token list', 'hook list', 'schedule list',
         'store check', 'store status', 'workflow show leaks', 'workflow show deliver -w webhook-crm']


def _spellings(secret):
    raw = secret.encode()
    return {raw, raw[::-1], base64.b64encode(raw).rstrip(b'='), raw.hex().encode(), urllib.parse.quote(secret).encode(),
            json.dumps(secret)[1:-1].encode(), raw[:len(raw) * 2 // 3]}


class Canaries:
    """The secrets, and every output so far."""

    def __init__(self):
        self.secrets, self.outputs = {}, {}

    def see(self, place, text):
        self.outputs[place] = self.outputs.get(place, b'') + (text if isinstance(text, bytes) else text.encode())

    def check(self):
        for name, secret in self.secrets.items():
            for place, text in self.outputs.items():
                for spelling in _spellings(secret):
                    at = text.find(spelling)
                    assert at < 0, f'{name} is in {place}: {text[max(0, at - 200):at + 200]!r}'


def _command(weir, canaries, *words, **options):
    result = weir.run(*words, **options)
    canaries.see('weir ' + ' '.join(words), result.out + result.err)
    return result


def _scene(weir):
    global SERVER
    canaries = Canaries()
    canaries.secrets['password'] = PASSWORD
    if POSTGRES:
        SERVER = SERVER or PostgresServer()
        weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database(), password=PASSWORD)
    weir.make_store()
    os.mkdir(weir.path('secrets'))
    for name in ('step-key', 'header-key', 'bearer-key', 'sign-key'):
        canaries.secrets[name] = f'canary-{name}-"q"-7f' if name == 'step-key' else f'canary-{name}-7f{len(name)}'
        os.chmod(weir.write(f'secrets/{name}', canaries.secrets[name] + '\n'), 0o600)
    collector = Server(lambda request: (200, {'Content-Type': 'application/json'}, b'{}'), '127.0.0.1')
    weir.write('weir.yaml', f'exec.allow: true\nsecrets.directory: secrets\nhttp_step.allow: [{ALLOWED}]\n'
               f'dispatch.poll_interval: 100ms\nlog.format: json\nlog.level: debug\notel.endpoint: {collector.url}\n')
    return canaries, collector


def _echo(request):
    """A server that shows all that it gets: as a result, as a failure, or in a redirect."""
    headers = json.dumps({name: value for name, value in request['headers'].items() if name != 'Weir-Callback'}).encode()
    if request['path'].startswith('/fails'):
        return 400, {'Content-Type': 'text/plain', 'X-Echo': 'x'}, headers
    if request['path'].startswith('/moved'):
        return 302, {'Location': f'http://127.0.0.1:1/{request["headers"]["X-Key"]}'}, b''
    return (202 if request['path'].startswith('/later') else 200), {'Content-Type': 'application/json'}, headers


def _publish(weir, server):
    headers = {'secrets': {'X-Key': 'header-key'}, 'timeout': '10s'}

    def call(path, **more):
        return {**headers, 'http': {'url': server.url + path, 'method': 'POST', 'body': '${.input.say}',
                                    'bearer': 'bearer-key', 'sign': 'sign-key', **more}}

    key = {'secrets': {'KEY': 'step-key'}}
    workflows = {
        'leaks': {'run': {'exec': ['sh', '-c', LEAK, 'sh', '0'], **key}, 'send': {'needs': ['run'], **call('/fine')},
                  'use': {'needs': ['run', 'send'], 'exec': ['echo', '${.steps.run.output}', '${.steps.send.output}']}},
        'fails': {'run': {'exec': ['sh', '-c', LEAK, 'sh', '3'], **key}},
        'refused': {'send': call('/fails')}, 'moved': {'send': call('/moved', redirects=3)},
        'later': {'send': call('/later', callback='1h')}, 'broken': {'send': call('/${.input.say | error}')}}
    for name, steps in workflows.items():
        weir.write('workflow.json', json.dumps({'name': name, 'steps': steps}))
        weir.good('workflow', 'apply', 'workflow.json', '-q')
    weir.good('webhook', 'set', 'crm', server.url + '/fails', '--sign', 'sign-key', '-w', 'acme')
    return list(workflows)


def _ask(listener, path, method='GET', body=b'', **fields):
    """The whole answer as bytes."""
    lines = ''.join(f'{name.replace("_", "-")}: {value}\r\n' for name, value in fields.items())
    with listener.connect() as connection:
        head = f'{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n'
        connection.sendall(head.encode() + body)
        answer = read_answer(connection, has_body=method != 'HEAD')
    return answer.status, json.dumps(answer.head).encode() + answer.body


def _ask_everything(listener, canaries, ids, token):
    """Every route: as it is, with wrong tokens that are canaries, and with bodies that are wrong."""
    described = json.loads(_ask(listener, '/openapi.json')[1].partition(b'}')[2])
    asked = 0
    for path, methods in described['paths'].items():
        if path == '/v1/stream':
            continue
        for method in {name.upper() for name in methods} & {'GET', 'POST', 'PUT', 'PATCH', 'DELETE'}:
            for id in ids if '{id}' in path else ids[:1]:
                filled = re.sub(r'\{(\w+)\}', lambda name: {'id': id, 'workspace': 'acme', 'name': 'leaks', 'step': 'run',
                                                            'attempt': '1', 'code': 'conflict', 'hook': 'crm',
                                                            'workflow': 'leaks'}.get(name.group(1), 'x'), path)
                wrong = {'authorization': f'Bearer {canaries.secrets["guess"]}'}
                right = {'authorization': f'Bearer {token}'}
                tries = [(right, b''), (wrong, b'')] if method == 'GET' else [
                    (wrong, b'{}'), ({**right, 'content_type': 'application/json'}, b'{"callback": 7, "x": '),
                    ({**right, 'content_type': 'application/json', 'weir_reason': 'x'}, b'{"nothing": 1}')]
                for fields, body in tries:
                    status, text = _ask(listener, filled, method, body, **fields)
                    assert status < 500 or status == 503, (method, filled, text)
                    canaries.see(f'{method} {filled}', text)
                    asked += 1
    return asked


def _run_all(weir, canaries, server, names):
    ids = {name: weir.enqueue('-w', 'acme', name, '-p', json.dumps({'say': VISIBLE})) for name in names}
    for name, id in ids.items():
        if name != 'later':
            weir.run('wait', id)
    wait_for('the callback', lambda: weir.show(ids['later'])['status'] == 'WAITING', pause=SHORT)
    wait_for('a delivery', lambda: weir.items('list', '-w', 'webhook-crm', '-s', 'failed'), pause=SHORT)
    tokens = [request['headers']['Weir-Callback'] for request in server.requests if request['path'].startswith('/later')]
    canaries.secrets['callback'] = tokens[0].split('.')[1]
    states = {name: weir.show(id)['status'] for name, id in ids.items()}
    assert states['leaks'] == 'COMPLETED' and states['fails'] == states['refused'] == 'FAILED', states
    return ids


def _dump(weir):
    if POSTGRES:
        return subprocess.run([client_program('pg_dump'), weir.environment['WEIR_STORE']], check=True, capture_output=True,
                              timeout=TIMEOUT_SECONDS).stdout
    names = [name for name in ('weir.db', 'weir.db-wal') if os.path.exists(weir.path(name))]
    return b''.join(open(weir.path(name), 'rb').read() for name in names)


def no_output_of_a_node_has_a_secret(weir):
    canaries, collector = _scene(weir)
    server = Server(_echo)
    names = _publish(weir, server)
    for name in ('ops', 'viewer', 'old'):
        role = 'admin' if name == 'ops' else 'read'
        canaries.secrets[name] = weir.good('token', 'create', name, '--role', role, '--all-workspaces', '-q').out.strip()
    _command(weir, canaries, 'token', 'revoke', 'old', '-y')
    canaries.secrets['guess'] = 'weir_' + 'canaryguess' * 3 + 'canarygues'
    listener = Listener(weir)
    ids = _run_all(weir, canaries, server, names)
    streamed = _ask(listener, '/v1/session', 'POST', authorization=f'Bearer {canaries.secrets["viewer"]}')
    assert streamed[0] == 200  # its cookie has the token, which is its purpose
    assert _ask_everything(listener, canaries, list(ids.values()), canaries.secrets['ops']) > 150
    for verb, body in (('complete', {'output': 1}), ('fail', {'error': 'x'}), ('complete', {'output': 2})):
        body = json.dumps({'callback': f'{ids["later"]}.{canaries.secrets["callback"]}', **body}).encode()
        answer = _ask(listener, f'/v1/callbacks:{verb}', 'POST', body, content_type='application/json')
        canaries.see('a callback', answer[1])
    for words in READS:
        _command(weir, canaries, *words.split())
    for id in ids.values():
        for words in (['show', id], ['show', id, '--json'], ['why', id], ['logs', id], ['logs', id, '--raw', '--all'],
                      ['wait', id, '--timeout', '1s']):
            _command(weir, canaries, *words)
    url, file = f'http://127.0.0.1:{listener.port}', weir.write('token', canaries.secrets['ops'] + '\n')
    os.chmod(file, 0o600)
    for words in ('status', 'list', f'show {ids["fails"]}', 'workflow show nothing', 'token list'):
        _command(weir, canaries, *words.split(), '--store', url, '--token-file', file)
    canaries.see('metrics', _ask(listener, '/metrics', authorization=f'Bearer {canaries.secrets["viewer"]}')[1])
    wait_for('spans', lambda: collector.requests, pause=SHORT)
    listener.process.send_signal(signal.SIGTERM)
    listener.process.wait(TIMEOUT_SECONDS)
    canaries.see('spans', b''.join(request['body'] for request in collector.requests))
    for name in (listener.errors, listener.out):
        canaries.see('the log', open(name, 'rb').read())
    canaries.see('the store', _dump(weir))
    whole = b''.join(canaries.outputs.values())
    assert VISIBLE.encode() in whole and canaries.outputs['the log'].count(b'\n') > 100 and canaries.outputs['spans']
    canaries.check()


def no_text_of_an_error_has_the_password_of_a_store(weir):
    canaries = Canaries()
    canaries.secrets['password'] = PASSWORD
    stores = [f'postgres://eve:{PASSWORD}@127.0.0.1:1/app', f'postgres://eve:{PASSWORD}@nowhere.invalid/app?sslmode=x',
              f'postgres://eve:{PASSWORD}@[::1/app', f'http://eve:{PASSWORD}@127.0.0.1:1', f'postgres://:{PASSWORD}@/%zz',
              f'host=127.0.0.1 port=1 password={PASSWORD}', f'mysql://eve:{PASSWORD}@127.0.0.1/app']
    verbs = re.findall(r'^### weir (.*)$', weir.good('help', '--markdown').out, re.MULTILINE)
    assert len(verbs) > 50
    for verb in verbs:
        if verb in ('demo', 'dev', 'top'):
            continue
        for store in stores if verb in ('status', 'serve', 'enqueue', 'store migrate') else stores[:1]:
            usage = weir.run(*verb.split(), '--help').out
            needed = ['x'] * len(re.findall(r' [A-Z][A-Z-]*\b(?!\])', re.search(r'usage: (.*)', usage).group(1)))
            for words in (needed, []):
                result = _command(weir, canaries, *verb.split(), *words, '--store', store, '--timeout', '1s')
                if '--timeout' in result.err:
                    result = _command(weir, canaries, *verb.split(), *words, '--store', store)
    assert any(b'127.0.0.1' in text for text in canaries.outputs.values())
    weir.write('weir.yaml', f'store: postgres://eve:{PASSWORD}@127.0.0.1:1/app\nnonsense: 1\n')
    _command(weir, canaries, 'status')
    _command(weir, canaries, 'doctor')
    canaries.check()


if __name__ == '__main__':
    code = run_tests(sys.modules[__name__], sys.argv[1])
    if SERVER is not None:
        SERVER.close()
    sys.exit(code)
