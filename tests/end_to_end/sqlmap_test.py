#!/usr/bin/env python3
"""sqlmap, a published program that looks for SQL injection, finds none in the REST API (`./dev check corpora`). Each text
of a request that reaches the store is a place for its payloads: arguments, segments of paths, members of bodies, fields of
the head. A small server that joins its SQL from texts shows that sqlmap would find one.

usage: sqlmap_test.py BINARY [TEST ...]
"""

import http.server
import os
import re
import sqlite3
import subprocess
import sys
import threading
import urllib.parse

from harness import run_tests
from http_client import Listener
from postgres_server import PostgresServer

SAFE = 'do not appear to be injectable'
#: A star is a place for payloads. Of a body sqlmap finds the texts by itself, if nothing has a star. The columns: places,
#: method, path, body, field of the head.
TARGETS = [
    (4, 'GET', '/v1/executions?workspace=acme*&workflow=hello*&error_code=a*&idempotency_key=b*', None, None),
    (4, 'GET', '/v1/executions?workspace=acme&business_key=a*&node=b*&error_text=c*&label.region=eu*', None, None),
    (1, 'GET', '/v1/executions?workspace=acme&cursor=a*', None, None),
    (1, 'GET', '/v1/executions/ID*', None, None),
    (1, 'GET', '/v1/executions/ID*/why', None, None),
    (1, 'GET', '/v1/workspaces?name=a*', None, None),
    (1, 'GET', '/v1/workspaces/acme*/usage', None, None),
    (2, 'GET', '/v1/workflows/hello*?workspace=acme*', None, None),
    (3, 'GET', '/v1/audit?subject=a*&actor=b*&act=c*', None, None),
    (1, 'GET', '/v1/stream?workspace=missing*', None, None),  # refused: a stream has no end
    (5, 'POST', '/v1/workspaces/acme/executions',
     '{"workflow":"hello","idempotency_key":"a","business_key":"b","labels":{"region":"c"},"params":{"name":"d"}}', None),
    (1, 'POST', '/v1/workspaces/acme*/pause', None, None),
    (1, 'POST', '/v1/executions/ID*/cancel', None, None),
    (1, 'POST', '/v1/pause', None, 'Weir-Reason: a*'),
    (3, 'POST', '/v1/bulk', '{"action":"cancel","filter":{"workspace":"acme","workflow":"a"},"dry_run":true}', None),
    (1, 'PUT', '/v1/workspaces/other', '{"plan":"free"}', None),
    (1, 'POST', '/v1/locks/a*', None, None),
]


def _sqlmap(weir, url, method='GET', body=None, field=None, system='SQLite'):
    """What it prints about one request."""
    words = ['sqlmap', '--batch', '--flush-session', '--disable-coloring', '--output-dir', weir.path('sqlmap'), '--dbms',
             system, '--technique', 'BEUST', '--time-sec', '2', '--ignore-code', '404', '--method', method,
             '--skip-urlencode', '-u', url]
    words += [] if body is None else ['--data', body, '-H', 'Content-Type: application/json']
    words += [] if field is None else ['-H', field]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=600, env=dict(os.environ, HOME=weir.folder))
    return done.stdout


def _attack(weir, system):
    weir.make_store()
    listener = Listener(weir).ready()
    id = weir.good('enqueue', '-w', 'acme', 'hello').out.strip()
    for places, method, path, body, field in TARGETS:
        url = f'http://127.0.0.1:{listener.port}{path.replace("ID", id)}'
        printed = _sqlmap(weir, url, method, body, field, system)
        tested = set(re.findall(r'testing for SQL injection on (.*)', printed))
        assert SAFE in printed and len(tested) >= places, (method, path, tested, printed[-4000:])
    listener.stop()
    weir.good('store', 'check')
    assert weir.good('show', id, '--json')


def sqlmap_finds_no_injection_on_sqlite(weir):
    _attack(weir, 'SQLite')


def sqlmap_finds_no_injection_on_postgres(weir):
    server = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = server.url(server.database())
        _attack(weir, 'PostgreSQL')
    finally:
        server.close()


class _Joined(http.server.BaseHTTPRequestHandler):
    """Puts a text of the request into its SQL."""

    def do_GET(self):
        name = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get('name', [''])[0]
        base = sqlite3.connect(':memory:')
        base.executescript("CREATE TABLE names (name TEXT); INSERT INTO names VALUES ('acme'), ('beta');")
        try:
            rows, status = base.execute(f"SELECT name FROM names WHERE name = '{name}'").fetchall(), 200
        except sqlite3.Error as error:
            rows, status = str(error), 500
        self.send_response(status)
        self.end_headers()
        self.wfile.write(f'{rows}'.encode())

    def log_message(self, *_):
        pass


def sqlmap_finds_the_injection_of_a_server_that_joins_texts(weir):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Joined)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    printed = _sqlmap(weir, f'http://127.0.0.1:{server.server_port}/?name=acme*')
    server.shutdown()
    assert SAFE not in printed and re.search(r'sqlmap identified the following injection point', printed), printed[-4000:]


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
