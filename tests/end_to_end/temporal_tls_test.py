#!/usr/bin/env python3
"""weir before a real Temporal service behind a gate that ends TLS: certificates and keys that are right, wrong, and
replaced while executions run.

usage: temporal_tls_test.py BINARY [TEST ...]
"""

import os
import sys

from harness import run_tests
from temporal_gate import BINARY, DAY, Gate
from temporal_parts import skip_unless_installed
from temporal_scene import drain, enqueue_many, prepare, prepare_settings, serve, the_server
from waiting import wait_for

WORKSPACES = ['a', 'b', 'c']


def _gate(weir, name, **settings):
    server = the_server()
    gate = Gate(server.port)
    gate.start()
    prepare(weir, server, workspaces=WORKSPACES)
    _connect(weir, gate, name, **settings)
    return server, gate


def _connect(weir, gate, name, tls=None, **settings):
    """`tls`: more of its settings, by the names of files in the gate's folder."""
    files = {key: gate.path(value) for key, value in (tls or {}).items()}
    prepare_settings(weir, the_server(), address=gate.address(name), task_queue='q',
                     tls={'enabled': True, 'ca_file': gate.path('authority.pem'), **files}, **settings)


def _finding(weir, check='temporal'):
    """The doctor's exit code and what it says of the service."""
    result = weir.run('doctor', '--json')
    lines = {line['check']: line for line in result.json()['items']}
    return result.code, lines[check]['outcome'], lines[check]['detail']


def _refused(weir, *words):
    """Sooner or later: on a busy machine there may be no answer in time, which is another finding."""
    said = []

    def is_told():
        code, result, detail = _finding(weir)
        said[:] = [code, result, detail]
        assert 'secret' not in detail, said
        return code == 1 and result == 'problem' and all(word in detail for word in words)
    wait_for(lambda: f'that the doctor says {words}, and not {said},', is_told)


def _runs(weir, count=20):
    ids = enqueue_many(weir, count, workspaces=WORKSPACES)
    drain(weir, ids)
    the_server().check_one_chain_each(ids)


# --- what is right ---

def executions_run_through_tls(weir):
    _, gate = _gate(weir, 'tls')
    wait_for('the doctor to be content', lambda: (lambda told: told[1] == 'ok' and 'over TLS' in told[2])(_finding(weir)))
    serve(weir)
    _runs(weir)
    weir.close()
    gate.close()


def executions_run_through_mutual_tls(weir):
    _, gate = _gate(weir, 'mutual', tls={'certificate_file': 'client.pem', 'key_file': 'client.key'})
    serve(weir)
    _runs(weir)
    weir.close()
    gate.close()


def executions_run_with_an_api_key(weir):
    _, gate = _gate(weir, 'key')
    _connect(weir, gate, 'key', api_key_file=gate.write('key', 'first-key\n'))
    serve(weir)
    _runs(weir)
    weir.close()
    gate.close()


# --- what is wrong ---

def a_certificate_that_is_not_trusted_or_expired_or_of_another_name_is_told(weir):
    _, gate = _gate(weir, 'tls')
    gate.certificate('stranger', '')
    gate.certificate('expired', 'authority', 'IP:127.0.0.1', -2 * DAY, -DAY)
    gate.certificate('other', 'authority', 'DNS:other.test')
    prepare_settings(weir, the_server(), address=gate.address('tls'),
                     tls={'enabled': True, 'ca_file': gate.path('stranger.pem')})
    _refused(weir, "the server's certificate is not accepted", 'set ca_file')
    prepare_settings(weir, the_server(), address=gate.address('tls'), tls={'enabled': True})
    _refused(weir, "the server's certificate is not accepted", 'set ca_file')
    _connect(weir, gate, 'tls')
    gate.start(server='expired')
    _refused(weir, "the server's certificate is not accepted", 'expired', "set this machine's clock")
    gate.start(server='other')
    _refused(weir, "the server's certificate is not accepted", 'server_name')
    gate.start(server='server')
    gate.close()


def a_client_without_the_right_certificate_is_told(weir):
    _, gate = _gate(weir, 'mutual')
    _refused(weir, 'certificate_file')
    gate.certificate('stranger', '')
    gate.certificate('unknown', 'stranger', 'DNS:weir')
    _connect(weir, gate, 'mutual', tls={'certificate_file': 'unknown.pem', 'key_file': 'unknown.key'})
    _refused(weir, 'certificate_file')
    _connect(weir, gate, 'mutual', tls={'certificate_file': 'client.pem', 'key_file': 'unknown.key'})
    assert weir.run('serve').code == 2
    gate.close()


def a_key_that_is_wrong_or_missing_is_told(weir):
    _, gate = _gate(weir, 'key')
    _refused(weir, '401', 'check the API key')
    _connect(weir, gate, 'key', api_key_file=gate.write('key', 'a-secret-that-is-wrong\n'))
    _refused(weir, '401', 'check the API key')
    # Alone it means TLS: the gate is spoken to, and not trusted, since nobody names its authority.
    prepare_settings(weir, the_server(), address=gate.address('key'), api_key_file=gate.path('key'))
    _refused(weir, "the server's certificate is not accepted", 'set ca_file')
    gate.close()


def tls_where_there_is_none_and_none_where_there_is_are_told(weir):
    server, gate = _gate(weir, 'tls')
    prepare_settings(weir, server, tls={'enabled': True, 'ca_file': gate.path('authority.pem')})
    _refused(weir, 'answers without TLS')
    prepare_settings(weir, server, address=gate.address('tls'))
    _refused(weir, 'TLS')
    gate.close()


# --- what nobody is told ---

def a_key_is_in_no_log_no_metric_no_answer_and_no_command_line(weir):
    canary = 'canary-5d1b77'
    _, gate = _gate(weir, 'key')
    gate.start(api_key=canary)
    _connect(weir, gate, 'key', api_key_file=gate.write('key', canary + '\n'))
    with open(weir.path('log'), 'wb') as log:
        node = weir.spawn('serve', env={'WEIR_LOG_LEVEL': 'debug'}, stdout=log, stderr=log)
    _runs(weir, 5)
    gate.start(api_key='another')
    ids = enqueue_many(weir, 2, workspaces=WORKSPACES)
    wait_for('the outage to be told', lambda: '401' in _reason(weir))
    said = [result.out + result.err for result in (weir.run(*words) for words in (
        ('status', '--json'), ('status', '--metrics'), ('doctor',), ('why', ids[0]), ('show', ids[0], '--json'),
        ('signal', ids[0], 'go'), ('cancel', ids[1], '--terminate'), ('list', '--json'), ('config', 'show', '--json'),
        ('node', 'list', '--json')))]
    for name in ('cmdline', 'environ'):
        with open(f'/proc/{node.pid}/{name}') as file:
            said.append(file.read())
    weir.close()
    with open(weir.path('log')) as log:
        said.append(log.read())
    assert 'engine.down' in said[-1] and 'store.called' in said[-1], said[-1][-2000:]
    assert not any(canary in text for text in said), [text for text in said if canary in text]
    gate.close()


# --- what is replaced ---

def _reason(weir):
    return weir.good('status', '--json').json()['engine_error'] or ''


def secrets_are_replaced_while_executions_run_and_none_is_lost(weir):
    """First the gate wants new ones, so that the old ones are refused for a while; then the files are replaced."""
    _, gate = _gate(weir, 'mutual')
    for end in ('.pem', '.key'):
        gate.copy('client' + end, 'ours' + end)
    _connect(weir, gate, 'mutual', tls={'certificate_file': 'ours.pem', 'key_file': 'ours.key'})
    serve(weir)
    ids = enqueue_many(weir, 60, workspaces=WORKSPACES)
    wait_for('some ends', lambda: weir.good('status', '--json').json()['completed'] >= 5)
    gate.certificate('authority2', '')
    gate.certificate('client2', 'authority2', 'DNS:weir')
    gate.start(clients='authority2')
    wait_for('the outage to be told', lambda: 'certificate_file' in _reason(weir) or 'TLS' in _reason(weir))
    for end in ('.key', '.pem'):
        gate.copy('client2' + end, 'ours' + end)
    drain(weir, ids)
    the_server().check_one_chain_each(ids)
    weir.close()
    gate.close()


def an_api_key_is_replaced_while_executions_run_and_none_is_lost(weir):
    _, gate = _gate(weir, 'key')
    _connect(weir, gate, 'key', api_key_file=gate.write('key', 'first-key\n'))
    serve(weir)
    ids = enqueue_many(weir, 60, workspaces=WORKSPACES)
    wait_for('some ends', lambda: weir.good('status', '--json').json()['completed'] >= 5)
    gate.start(api_key='second-key')
    wait_for('the outage to be told', lambda: '401' in _reason(weir))
    assert 'first-key' not in weir.good('status', '--json').out
    gate.write('key', 'second-key\n')
    drain(weir, ids)
    the_server().check_one_chain_each(ids)
    weir.close()
    gate.close()


if __name__ == '__main__':
    skip_unless_installed()
    assert os.path.exists(BINARY), 'there is no HAProxy: install the package haproxy (./dev test does)'
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
