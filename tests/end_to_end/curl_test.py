#!/usr/bin/env python3
"""A person with curl and a token alone: publishes a workflow, enqueues, waits, asks why, cancels, retries, pauses, and
watches the stream.

usage: curl_test.py BINARY [TEST ...] [--postgres]

With --postgres each request goes to the other one of two nodes.
"""

import contextlib
import json
import subprocess
import sys

from harness import run_tests
from http_client import SECONDS, Listener
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = PostgresServer() if '--postgres' in sys.argv else None
JSON = ('-H', 'Content-Type: application/json')


class Person:
    """Knows the addresses of nodes and a token."""

    def __init__(self, nodes, token):
        self.nodes, self.token, self.asked = nodes, token, 0

    def words(self, path):
        self.asked += 1
        node = self.nodes[self.asked % len(self.nodes)]
        return ['curl', '-sS', '--max-time', str(SECONDS), '-H', f'Authorization: Bearer {self.token}',
                f'http://127.0.0.1:{node.port}{path}']

    def curl(self, path, *words, status=200):
        """The answer to a request, which must have this status."""
        run = subprocess.run([*self.words(path), '-w', '\n%{http_code}', *words], capture_output=True, text=True,
                             check=False)
        body, _, said = run.stdout.rpartition('\n')
        assert run.returncode == 0 and said == str(status), (path, words, run)
        return json.loads(body) if body else None

    def post(self, path, body=None, status=200):
        return self.curl(path, '-X', 'POST', *(() if body is None else (*JSON, '-d', json.dumps(body))), status=status)

    def enqueue(self, workflow):
        return self.post('/v1/workspaces/acme/executions', {'workflow': workflow}, status=202)['id']

    @contextlib.contextmanager
    def stream(self, path):
        """The file that curl writes."""
        with open(path, 'w') as out, subprocess.Popen([*self.words('/v1/stream?workspace=acme'), '-N', '--max-time', '600'],
                                                      stdout=out) as process:
            try:
                wait_for('the begin of the stream', lambda: 'event: reset' in _text(path), pause=SHORT)
                yield
            finally:
                process.terminate()


def _text(path):
    with open(path) as file:
        return file.read()


def _changes(path, id):
    """The changes of an execution in the stream."""
    lines = [line for line in _text(path).splitlines() if line.startswith('data: ') and id in line]
    return [json.loads(line.removeprefix('data: '))['event'] for line in lines]


@contextlib.contextmanager
def _person(weir):
    if POSTGRES is not None:
        weir.environment['WEIR_STORE'] = POSTGRES.url(POSTGRES.database())
    weir.make_store()
    token = weir.good('token', 'create', 'person', '--role', 'admin', '--all-workspaces', '-q').out.strip()
    names = ['one', 'two'] if POSTGRES else ['one']
    nodes = [Listener(weir, '--node', name, output=name).ready() for name in names]
    yield Person(nodes, token)
    for node in nodes:
        node.stop()


def everything_is_done_by_curl(weir):
    with _person(weir) as person, person.stream(weir.path('stream')):
        program = f'test -e {weir.path("fine")} && echo 42'
        person.post('/v1/workflows', {'name': 'answer', 'steps': {'only': {'exec': ['sh', '-c', program]}}}, status=201)

        failed = person.enqueue('answer')
        shown = person.curl(f'/v1/executions/{failed}?wait=30s')
        assert shown['status'] == 'FAILED' and shown['steps'][0]['error_code'] == 'exit_1', shown
        weir.write('fine', '')
        again = person.post(f'/v1/executions/{failed}/retry', status=202)['new_id']
        assert person.curl(f'/v1/executions/{again}?wait=30s')['status'] == 'COMPLETED'
        assert person.curl(f'/v1/executions/{again}/result') == 42

        person.post('/v1/workspaces/acme/pause')
        waits = person.enqueue('answer')
        assert person.curl(f'/v1/executions/{waits}/why')['pending_reason'] == 'workspace_paused'
        person.post(f'/v1/executions/{waits}/cancel', status=202)
        refused = person.post(f'/v1/executions/{waits}/cancel', status=409)
        assert refused['code'] == 'illegal_state' and refused['allowed_actions'] == ['retry'], refused
        person.post('/v1/workspaces/acme/resume')
        last = person.enqueue('answer')
        assert person.curl(f'/v1/executions/{last}?wait=30s')['status'] == 'COMPLETED'

        wanted = {failed: ['enqueue', 'fail'], again: ['enqueue', 'complete'], waits: ['enqueue', 'cancelled'],
                  last: ['enqueue', 'complete']}
        for id, ends in wanted.items():
            wait_for(lambda id=id: f'the changes of {id}: {_changes(weir.path("stream"), id)}',
                     lambda id=id, ends=ends: set(ends) <= set(_changes(weir.path('stream'), id)), pause=SHORT)


def without_a_token_nothing_is_shown(weir):
    with _person(weir) as person:
        id = person.enqueue('hello')
        for token in ('', 'weir_' + 'A' * 43):
            stranger = Person(person.nodes, token)
            for path in (f'/v1/executions/{id}', '/v1/executions', '/v1/stream', '/metrics'):
                assert stranger.curl(path, status=401)['code'] == 'unauthorized', path


def main():
    try:
        return run_tests(sys.modules[__name__], sys.argv[1])
    finally:
        if POSTGRES is not None:
            POSTGRES.close()


if __name__ == '__main__':
    sys.exit(main())
