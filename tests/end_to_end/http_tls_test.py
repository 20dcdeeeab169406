#!/usr/bin/env python3
"""TLS of a listener: its files, and exchanges of the certificate while clients are at work.

usage: http_tls_test.py BINARY [TEST ...]
"""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

from harness import assert_error, run_tests
from http_client import SECONDS, Listener, is_closed, problem, read_answer, read_until
from waiting import SHORT, wait_for


def _certificate(weir, name, days=30):
    files = weir.path(f'{name}.pem'), weir.path(f'{name}.key')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', str(days), '-subj', f'/CN={name}',
                    '-addext', 'subjectAltName=DNS:localhost', '-out', files[0], '-keyout', files[1]],
                   check=True, capture_output=True, timeout=SECONDS)
    os.chmod(files[1], 0o600)
    return files


def _events(weir, name):
    with open(weir.path('node.out')) as file:
        events = [json.loads(line) for line in file if line.endswith('\n')]  # the last one may be half written
    return [event for event in events if event['event'] == name]


def _configure_tls(weir, certificate, key):
    weir.write('weir.yaml', f'http.tls:\n  certificate_file: {certificate}\n  key_file: {key}\n')


def _connect_tls(listener, trusted, version=ssl.TLSVersion.TLSv1_3):
    context = ssl.create_default_context(cafile=trusted)
    context.set_ciphers('DEFAULT@SECLEVEL=0')  # the old versions, too
    with warnings.catch_warnings(action='ignore', category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    return context.wrap_socket(listener.connect(), server_hostname='localhost')


def _ask_on(connection, path):
    connection.sendall(f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    return read_answer(connection)


def _reported(weir, listen, *words):
    """All that a node reports from its start to its end."""
    errors = weir.path('reported')
    with open(errors, 'w') as file:
        node = weir.spawn('serve', '--listen', listen, *words, stdout=subprocess.DEVNULL, stderr=file)

    def read():
        with open(errors) as file:
            return file.read()
    wait_for('the line of the listener', lambda: 'http at' in read() or node.poll() is not None, pause=SHORT)
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS) == 0, read()
    return read()


def _make_token(weir):
    """Before there is one, no node starts with an address that other machines reach."""
    return weir.good('token', 'create', 'any', '--role', 'read', '--all-workspaces', '-q').out.strip()


def the_address_that_a_browser_can_open_is_reported(weir):
    weir.make_store()
    _make_token(weir)
    _configure_tls(weir, *_certificate(weir, 'any'))
    file, name = f'unix:{weir.path("http.sock")}', re.escape(socket.gethostname())
    for listen, expected in (('127.0.0.1:0', r'http://127\.0\.0\.1:\d+/'), (f'{file},[::1]:0', r'http://\[::1\]:\d+/'),
                             ('https://127.0.0.1:0,127.0.0.1:0', r'https://127\.0\.0\.1:\d+/'),
                             ('https://0.0.0.0:0', rf'https://{name}:\d+/'), ('https://[::]:0', rf'https://{name}:\d+/')):
        said = _reported(weir, listen)
        found = re.findall(r'dashboard: (.*)\n', said)
        assert len(found) == 1 and re.fullmatch(expected, found[0]), (listen, said)
    assert 'dashboard:' not in _reported(weir, file)
    weir.write('weir.yaml', 'http.behind_proxy: true\n')
    assert 'dashboard:' not in _reported(weir, '127.0.0.1:0')  # the address to open is that of the proxy


def tls_is_served_and_its_certificate_exchanged_without_a_cut(weir):
    weir.make_store()
    first, first_key = _certificate(weir, 'first')
    second, second_key = _certificate(weir, 'second')
    now, now_key = weir.path('now.pem'), weir.path('now.key')
    shutil.copy(first, now)
    shutil.copy(first_key, now_key)
    _configure_tls(weir, now, now_key)
    listener = Listener(weir, listen='https://127.0.0.1:0')
    assert listener.addresses[0].startswith('https://127.0.0.1:'), listener.addresses
    old = _connect_tls(listener, first)
    assert _ask_on(old, '/livez').status == 200
    with _connect_tls(listener, first, ssl.TLSVersion.TLSv1_2) as connection:
        assert _ask_on(connection, '/v1/executions').status == 200
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        try:
            _connect_tls(listener, first, version)
            raise AssertionError(f'{version} is spoken')
        except ssl.SSLError as refusal:
            # Of the server, not of this client.
            assert isinstance(refusal, ssl.SSLEOFError) or 'ALERT_PROTOCOL_VERSION' in str(refusal), refusal
    assert listener.ask('/livez') is None  # plain HTTP
    stream = _connect_tls(listener, first)
    stream.sendall(b'GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n')
    assert not read_until(stream, b'{"reason":"new"}')[1]
    shutil.copy(second, now)
    listener.process.send_signal(signal.SIGHUP)  # the key is still the first one's
    refused = wait_for('the refusal', lambda: _events(weir, 'certificate.refused'), pause=SHORT)
    assert 'it is not the key of the certificate' in refused[0]['error'], refused
    with _connect_tls(listener, first) as connection:
        assert _ask_on(connection, '/livez').status == 200
    assert not read_until(stream, weir.enqueue('-w', 'acme', 'hello').encode())[1]
    assert _ask_on(old, '/livez').status == 200  # so that it is not cut because it was idle
    shutil.copy(second_key, now_key)
    listener.process.send_signal(signal.SIGHUP)
    wait_for('the second certificate', lambda: _trusts(listener, second), pause=SHORT)
    assert not read_until(stream, b'0\r\n\r\n')[1]  # the stream ends whole, with its last chunk
    answer = _ask_on(old, '/livez')  # the connection of before is answered, and ends then
    assert answer.status == 200 and answer.head['connection'] == 'close' and is_closed(old)
    listener.stop()


def bytes_that_are_no_request_get_a_problem_over_tls(weir):
    weir.make_store()
    certificate, key = _certificate(weir, 'first')
    _configure_tls(weir, certificate, key)
    listener = Listener(weir, listen='https://127.0.0.1:0')
    for line, status in ((b'GET /livez HTTP/2.0', 505), (b'GET /livez HTTP/x', 400), (b'GET /' + b'a' * 30000, 414)):
        with _connect_tls(listener, certificate) as connection:
            connection.sendall(line + b'\r\nHost: localhost\r\n\r\n')
            answer = read_answer(connection)
            assert answer.status == answer.json()['status'] == status, answer
            assert answer.head['content-type'] == 'application/problem+json' and answer.json()['request_id'], answer
    listener.stop()


def a_url_with_the_other_scheme_is_named_to_a_command(weir):
    weir.make_store()
    _make_token(weir)
    _configure_tls(weir, *_certificate(weir, 'any'))
    listener = Listener(weir, listen='https://127.0.0.1:0,127.0.0.1:0')
    with_tls, plain = (int(address.rpartition(':')[2]) for address in listener.addresses)
    for url, other in ((f'http://127.0.0.1:{with_tls}', 'https://'), (f'https://127.0.0.1:{plain}', 'http://')):
        assert_error(weir.run('plan', 'list', '--store', url), 6, 'store_unreachable', url, f'begin with {other}?')
    listener.stop()


def an_exchange_of_the_certificate_loses_no_request_of_clients_at_work(weir):
    weir.make_store()
    certificates = [_certificate(weir, name) for name in ('first', 'second')]
    now = weir.path('now.pem'), weir.path('now.key')
    answered, is_over = [0] * 4, threading.Event()

    def serve(certificate):
        for file, to in zip(certificate, now):
            shutil.copy(file, to)

    def work(number):
        """A client that begins a new connection when the server ends the old one. Each request must be answered."""
        context, connection = ssl._create_unverified_context(), None
        while not is_over.is_set():
            connection = connection or context.wrap_socket(listener.connect())
            answer = _ask_on(connection, '/v1/plans')
            assert answer is not None and answer.status == 200, answer
            answered[number] += 1
            if answer.head.get('connection') == 'close':
                connection.close()
                connection = None
        if connection is not None:
            connection.close()
    serve(certificates[0])
    _configure_tls(weir, *now)
    listener = Listener(weir, listen='https://127.0.0.1:0')
    id = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    waiting = []
    with ThreadPoolExecutor(len(answered)) as pool:
        clients = [pool.submit(work, number) for number in range(len(answered))]
        try:
            for turn in range(1, 5):
                before = list(answered)
                waiting.append(_begin_to_wait(listener, certificates[(turn - 1) % 2][0], id))
                serve(certificates[turn % 2])
                listener.process.send_signal(signal.SIGHUP)  # once: connections of each age are open
                wait_for('the exchange', lambda turn=turn: _trusts(listener, certificates[turn % 2][0]), pause=SHORT)
                wait_for('requests of each client', lambda before=before: any(client.done() for client in clients) or
                         all(now > then for now, then in zip(answered, before)), pause=SHORT)
        finally:
            is_over.set()
        for client in clients:
            client.result(SECONDS)
    weir.good('cancel', id, '-q')
    for connection in waiting:  # of the first four certificates
        answer = read_answer(connection)
        assert answer.status == 200 and answer.json()['status'] == 'CANCELLED', answer
        assert answer.head['connection'] == 'close' and is_closed(connection), answer
    listener.stop()


def _begin_to_wait(listener, certificate, id):
    """A connection whose request waits for the end of an execution, so that no deadline cuts it."""
    connection = _connect_tls(listener, certificate)
    assert _ask_on(connection, '/livez').status == 200
    connection.sendall(f'GET /v1/executions/{id}?wait=5m HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    return connection


def exchanges_of_the_certificate_are_refused_while_eight_older_ones_have_connections(weir):
    weir.make_store()
    certificates = [_certificate(weir, name) for name in ('first', 'second')]
    now = weir.path('now.pem'), weir.path('now.key')

    def serve(turn):
        for file, to in zip(certificates[turn % 2], now):
            shutil.copy(file, to)
    serve(0)
    _configure_tls(weir, *now)
    listener = Listener(weir, listen='https://127.0.0.1:0')
    id = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    waiting = []
    for turn in range(1, 9):
        waiting.append(_begin_to_wait(listener, certificates[(turn - 1) % 2][0], id))
        serve(turn)
        listener.process.send_signal(signal.SIGHUP)
        wait_for(f'exchange {turn}', lambda turn=turn: _trusts(listener, certificates[turn % 2][0]), pause=SHORT)
    waiting.append(_begin_to_wait(listener, certificates[0][0], id))
    serve(9)
    listener.process.send_signal(signal.SIGHUP)
    wait_for('the refusal', lambda: _events(weir, 'certificate.refused'), pause=SHORT)
    assert 'of the last 8 certificates are still open' in _events(weir, 'certificate.refused')[0]['error']
    assert _trusts(listener, certificates[0][0])  # the last one goes on
    weir.good('cancel', id, '-q')
    assert [read_answer(connection).status for connection in waiting] == [200] * 9

    def is_next():
        listener.process.send_signal(signal.SIGHUP)  # refused until a daemon without connections was stopped
        return _trusts(listener, certificates[1][0])
    wait_for('the exchange', is_next)
    listener.stop()


def a_stream_on_a_connection_of_the_certificate_before_ends_at_once(weir):
    """Otherwise it would keep the connection, and its daemon, for days."""
    weir.make_store()
    certificates = [_certificate(weir, name) for name in ('first', 'second', 'third')]
    now = weir.path('now.pem'), weir.path('now.key')

    def serve(certificate):
        for file, to in zip(certificate, now):
            shutil.copy(file, to)
    serve(certificates[0])
    _configure_tls(weir, *now)
    listener = Listener(weir, listen='https://127.0.0.1:0')
    old = _connect_tls(listener, certificates[0][0])
    assert _ask_on(old, '/livez').status == 200
    serve(certificates[1])
    listener.process.send_signal(signal.SIGHUP)
    wait_for('the second certificate', lambda: _trusts(listener, certificates[1][0]), pause=SHORT)
    old.sendall(b'GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n')
    data, ended = read_until(old, b'\r\n0\r\n\r\n')
    assert not ended and data.startswith(b'HTTP/1.1 200 ') and is_closed(old), data
    serve(certificates[2])
    listener.process.send_signal(signal.SIGHUP)
    wait_for('the third certificate', lambda: _trusts(listener, certificates[2][0]), pause=SHORT)
    listener.stop()


def _trusts(listener, certificate):
    try:
        with _connect_tls(listener, certificate) as connection:
            return _ask_on(connection, '/livez').status == 200
    except ssl.SSLError:
        return False


def tls_with_wrong_files_is_refused_at_the_start(weir):
    weir.make_store()
    certificate, key = _certificate(weir, 'first')
    _, other_key = _certificate(weir, 'second')
    weir.write('no.pem', 'nothing')
    open_key = shutil.copy(key, weir.path('open.key'))
    os.chmod(open_key, 0o644)
    for files, word in (((certificate, other_key), 'it is not the key of the certificate'),
                        ((weir.path('no.pem'), key), 'it has no certificate in PEM'),
                        ((certificate, certificate), 'it has no private key in PEM'),
                        ((certificate, open_key), 'every user of this machine may read this key'),
                        ((weir.path('gone.pem'), key), 'No such file'), ((certificate, weir.path('.')), 'no regular file')):
        _configure_tls(weir, *files)
        result = weir.run('serve', '--listen', 'https://127.0.0.1:0')
        if word == 'it has no private key in PEM':
            os.chmod(certificate, 0o600)
            result = weir.run('serve', '--listen', 'https://127.0.0.1:0')
        assert result.code == 2 and word in result.err, (files, result)
    weir.write('weir.yaml', '')
    result = weir.run('serve', '--listen', 'https://127.0.0.1:0')
    assert result.code == 2 and 'http.tls.certificate_file' in result.err, result


def an_open_address_asks_for_a_token(weir):
    weir.make_store()
    _make_token(weir)
    certificate, key = _certificate(weir, 'first')
    _configure_tls(weir, certificate, key)
    listener = Listener(weir, listen='https://0.0.0.0:0')
    with _connect_tls(listener, certificate) as connection:
        assert _ask_on(connection, '/livez').status == 200
        answer = _ask_on(connection, '/v1/executions')
        problem(answer, 401, 'unauthorized')
        assert answer.head['www-authenticate'].startswith('Bearer'), answer
    listener.stop()
    weir.write('weir.yaml', 'http.behind_proxy: true\n')
    listener = Listener(weir)
    problem(listener.ask('/v1/executions', host='weir.example'), 401, 'unauthorized')
    listener.stop()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
