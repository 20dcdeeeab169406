#!/usr/bin/env python3
"""Secrets from the node into a step, and that no other place ever has them.

usage: secrets_test.py BINARY [--postgres] [TEST ...]
"""

import json
import os
import signal
import subprocess
import sys

from harness import TIMEOUT_SECONDS, assert_error, run_tests
from http_client import LONG_LEASE
from postgres_server import PostgresServer, client_program
from waiting import wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
VALUE = 'hunter22-"quoted"-\u00e9'
ROTATED = 'rotated-value-2'
# The program shows its secret in every way that it has. The file `go` ends it.
LEAK = ('echo "out $KEY"; echo "err $KEY" >&2; tr "\\0" " " < /proc/$$/cmdline; touch "$1/started";'
        ' until [ -e "$1/go" ]; do sleep 0.05; done; printf "%s" "$KEY" > "$1/got"; exit $2')


def _store(weir):
    global SERVER
    if POSTGRES:
        if SERVER is None:
            SERVER = PostgresServer()
        weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())
    weir.environment.update(LONG_LEASE)  # a node that is late must not run a step again
    weir.make_store()
    os.mkdir(weir.path('secrets'))
    os.mkdir(weir.path('files'))
    weir.write('weir.yaml', 'exec.allow: true\nsecrets.directory: secrets\nnode.name: node-7\n'
               'dispatch.poll_interval: 100ms\nlog.format: json\nlog.level: debug\n')


def _secret(weir, name, value, mode=0o600):
    path = weir.write(f'secrets/.{name}', value + '\n')
    os.chmod(path, mode)
    os.rename(path, weir.path(f'secrets/{name}'))


def _apply(weir, name, text):
    weir.write('workflow.yaml', f'name: {name}\n{text}')
    weir.good('workflow', 'apply', 'workflow.yaml', '-q')


def _serve(weir, **options):
    return weir.spawn('serve', **options)


def _stop(process):
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, err
    return out + err


def _dump(weir):
    """Every byte that the store keeps."""
    if POSTGRES:
        url = weir.environment['WEIR_STORE']
        return subprocess.run([client_program('pg_dump'), url], check=True, capture_output=True,
                              timeout=TIMEOUT_SECONDS).stdout
    bytes_of = b''
    for name in ('weir.db', 'weir.db-wal', 'weir.db-shm'):
        if os.path.exists(weir.path(name)):
            with open(weir.path(name), 'rb') as file:
                bytes_of += file.read()
    return bytes_of


def _is_clean(what, text):
    text = text if isinstance(text, bytes) else text.encode()
    spellings = (VALUE.encode(), b'hunter22', VALUE.replace('"', '\\"').encode(), ROTATED.encode())
    for spelling in spellings:
        at = text.find(spelling)
        assert at < 0, f'{what} holds the secret: {text[max(0, at - 200):at + 80]!r}'


def _arguments_of_all_processes():
    found = b''
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as file:
                found += file.read() + b'\n'
        except OSError:
            pass  # it has ended
    return found


def the_value_reaches_the_step_and_no_other_place(weir):
    _store(weir)
    _secret(weir, 'stripe-key', VALUE)
    _apply(weir, 'pay', f'steps:\n  charge:\n    secrets: {{KEY: stripe-key}}\n    exec:\n      [sh, -c, {LEAK!r}, sh,'
           ' "${.input.folder}", "${.input.code}"]\n')
    node = _serve(weir)
    shown = ''
    for code in (0, 3):
        for name in ('started', 'go', 'got'):
            if os.path.exists(weir.path(f'files/{name}')):
                os.unlink(weir.path(f'files/{name}'))
        id = weir.enqueue('-w', 'acme', 'pay', '-p', json.dumps({'folder': weir.path('files'), 'code': code}))
        wait_for('the start of the step', lambda: os.path.exists(weir.path('files/started')))
        _is_clean('an argv', _arguments_of_all_processes())
        weir.write('files/go', '')
        weir.run('wait', id)
        with open(weir.path('files/got'), encoding='utf-8') as file:
            assert file.read() == VALUE
        for words in (('show', id), ('show', id, '--json'), ('logs', id), ('why', id), ('list', '-o', 'jsonl'),
                      ('workflow', 'show', 'pay'), ('config', 'show'), ('doctor',)):
            shown += repr(weir.run(*words))
        failed = weir.good('show', id, '--json').json()
        assert '***' in str(failed['steps']), failed
    assert 'err ***' in shown and 'out ***' in shown, shown
    _is_clean('the command line', shown)
    _is_clean('the log', _stop(node))
    _is_clean('the store', _dump(weir))


def an_execution_waits_for_a_missing_secret_with_the_reason(weir):
    _store(weir)
    _apply(weir, 'pay', 'steps:\n  charge:\n    secrets: {KEY: stripe-key}\n    exec: [sh, -c, \'test -n "$KEY"\']\n')
    node = _serve(weir)
    id = weir.enqueue('-w', 'acme', 'pay')
    wait_for('the refusal', lambda: weir.good('show', id, '--json').json()['error_code'] == 'secret_missing')
    why = weir.good('why', id).out
    for words in ('secret_missing', 'node node-7', 'stripe-key', 'secrets/stripe-key', 'WEIR_SECRET_STRIPE_KEY'):
        assert words in why, why

    def is_put_back():  # it is tried again at times
        shown = weir.good('show', id, '--json').json()
        assert shown['starts_refused'] <= 1, shown
        return shown['status'] == 'PENDING'
    wait_for('the next wait', is_put_back)
    doctor = weir.run('doctor').out
    assert 'workflow pay' in doctor and 'executions wait for a secret' in doctor and 'node-7' in doctor, doctor
    _secret(weir, 'stripe-key', VALUE, mode=0o644)
    weir.release(id)
    weir.good('wait', id)
    doctor = weir.run('doctor').out
    assert 'may be read or written by every user (mode 0644)' in doctor, doctor
    assert 'wait for a secret' not in doctor, doctor
    os.chmod(weir.path('secrets/stripe-key'), 0o600)
    doctor = weir.run('doctor').out
    assert 'stripe-key' not in doctor, doctor
    _is_clean('the log', _stop(node))


def a_step_that_waits_for_a_secret_says_so(weir):
    _store(weir)
    _secret(weir, 'stripe-key', VALUE)
    _apply(weir, 'pay', 'steps:\n  first:\n    exec: [rm, secrets/stripe-key]\n  charge:\n    needs: [first]\n'
           '    secrets: {KEY: stripe-key}\n    exec: [sh, -c, \'test "$KEY" = rotated-value-2\']\n')
    node = _serve(weir)
    id = weir.enqueue('-w', 'acme', 'pay')
    held = wait_for('the wait of the step', lambda: (lambda why: why if why.get('held_up_by') else None)(
        weir.good('why', id, '--json').json()))
    assert held['held_up_by'] == 'secret_missing' and 'stripe-key' in held['because'], held
    assert 'node node-7, step charge' in held['because'], held
    _secret(weir, 'stripe-key', ROTATED)
    weir.good('wait', id)
    _is_clean('the log', _stop(node))


def secrets_come_from_systemd_and_from_the_environment_too(weir):
    _store(weir)
    os.mkdir(weir.path('credentials'))
    weir.write('credentials/db', VALUE + '\n')
    _apply(weir, 'both', 'steps:\n  a:\n    secrets: {ONE: db, TWO: api-token}\n    env_from: [REGION]\n'
           '    exec: [sh, -c, \'printf "%s %s %s" "$ONE" "$TWO" "$REGION" > files/got\']\n')
    node = _serve(weir, env={'CREDENTIALS_DIRECTORY': weir.path('credentials'), 'WEIR_SECRET_API_TOKEN': ROTATED,
                             'REGION': 'eu-north', 'WEIR_EXEC_ENV_FROM': 'REGION,TZ'})
    id = weir.enqueue('-w', 'acme', 'both')
    weir.good('wait', id)
    with open(weir.path('files/got'), encoding='utf-8') as file:
        assert file.read() == f'{VALUE} {ROTATED} eu-north'
    assert 'exec.env_from does not allow it' in weir.run('doctor').out
    _is_clean('the log', _stop(node))
    _is_clean('the store', _dump(weir))


def a_name_that_is_no_secret_is_refused_at_publish(weir):
    _store(weir)
    weir.write('bad.yaml', 'name: bad\nsteps:\n  a: {secrets: {KEY: "../weir.yaml"}, exec: ["true"]}\n')
    refusal = weir.run('workflow', 'apply', 'bad.yaml')
    assert_error(refusal, 2, 'definition_invalid', '"../weir.yaml" is no name of a secret')
    weir.write('weir.yaml', 'exec.env_from: [A, "b c"]\n')
    assert_error(weir.run('config', 'show'), 2, 'invalid_config', 'not the name of a variable')
    weir.write('weir.yaml', 'exec.env_from: [A, b-c]\n')
    assert_error(weir.run('config', 'show'), 2, 'invalid_config', '"b-c" is no name of an environment variable')


if __name__ == '__main__':
    try:
        code = run_tests(sys.modules[__name__], sys.argv[1])
    finally:
        if SERVER is not None:
            SERVER.close()
    sys.exit(code)
