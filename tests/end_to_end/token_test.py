#!/usr/bin/env python3
"""Tokens on the command line: the secret is printed once and stored nowhere.

usage: token_test.py BINARY [TEST ...]
"""

import hashlib
import os
import re
import sys

from harness import assert_error, run_tests
from http_client import Listener

SECRET = re.compile(r'^weir_[A-Za-z0-9_-]{43}$')


def a_secret_is_printed_once_and_only_its_hash_is_stored(weir):
    weir.make_store()
    made = weir.good('token', 'create', 'ci', '--role', 'enqueue', '-w', 'acme')
    secret = made.out.strip()
    assert SECRET.match(secret), repr(made)
    assert secret not in made.err and 'shown this once' in made.err, repr(made)
    hash = weir.database().execute("SELECT hash FROM tokens WHERE name = 'ci'").fetchone()[0]
    assert hash == hashlib.sha256(secret.encode()).digest()
    for words in (('token', 'list', '--json'), ('audit', '--json'), ('token', 'list')):
        said = weir.good(*words)
        assert secret not in said.out + said.err and secret[5:] not in said.out, words
    weir.good('store', 'backup', 'copy.db', '-q')
    for name in os.listdir(weir.folder):
        if os.path.isfile(weir.path(name)):
            with open(weir.path(name), 'rb') as file:
                assert secret[5:].encode() not in file.read(), name


def the_answer_in_json_has_the_secret_and_the_facts(weir):
    weir.make_store()
    planned = weir.good('token', 'create', 'ci', '--role', 'read', '-w', 'acme', '-w', 'tiny', '--json', '-n').json()
    assert planned == {'act': 'token create', 'name': 'ci', 'id': None, 'role': 'read', 'workspaces': ['acme', 'tiny'],
                       'expires_at': None, 'max_body_bytes': None, 'rate': None, 'secret': None, 'dry_run': True}, planned
    assert weir.items('token', 'list') == []
    made = weir.good('token', 'create', 'ci', '--role', 'read', '-w', 'acme', '-w', 'tiny', '--expires-at', '90d',
                     '--max-body-bytes', '4096', '--rate', '250', '--json').json()
    assert SECRET.match(made.pop('secret')) and made['workspaces'] == ['acme', 'tiny'] and made['expires_at'], made
    listed, = weir.items('token', 'list')
    assert (listed['name'], listed['role'], listed['workspaces'], listed['state'], listed['expires_at']) == (
        'ci', 'read', ['acme', 'tiny'], 'live', made['expires_at']), listed
    assert listed['max_body_bytes'] == made['max_body_bytes'] == 4096, listed
    assert listed['rate'] == made['rate'] == 250, listed
    table = weir.good('token', 'list').out
    assert '4096' in table and '250' in table, table
    assert listed['id'] == made['id'] and listed['last_used_at'] is None and listed['created_by'], listed


def secrets_differ(weir):
    weir.make_store()
    secrets = {weir.good('token', 'create', f't{i}', '--role', 'admin', '--all-workspaces', '-q').out for i in range(5)}
    assert len(secrets) == 5, secrets


def a_revoked_token_frees_its_name(weir):
    weir.make_store()
    weir.good('token', 'create', 'ci', '--role', 'admin', '--all-workspaces', '-q')
    assert_error(weir.run('token', 'create', 'ci', '--role', 'read', '--all-workspaces'), 4, 'conflict')
    weir.good('token', 'revoke', 'ci', '-n')
    assert [token['state'] for token in weir.items('token', 'list')] == ['live']
    weir.good('token', 'revoke', 'ci', '--reason', 'it leaked')
    assert_error(weir.run('token', 'revoke', 'ci'), 3, 'not_found')
    id = weir.good('token', 'create', 'ci', '--role', 'read', '--all-workspaces', '--json').json()['id']
    assert [token['state'] for token in weir.items('token', 'list')] == ['revoked', 'live']
    weir.good('token', 'revoke', str(id), '-q')
    revoked = weir.items('audit', '--act', 'token revoke')
    assert len(revoked) == 2 and revoked[1]['reason'] == 'it leaked' and revoked[1]['subject'] == 'ci', revoked


def a_dry_run_refuses_what_the_act_refuses(weir):
    weir.make_store()
    words = ('token', 'create', 'ci', '--role', 'read', '-w', 'acme')
    said = weir.good(*words, '-n')
    assert said.out == '' and 'would make token ci' in said.err, repr(said)
    weir.good(*words, '-q')
    for more in ((), ('-n',)):
        assert_error(weir.run(*words, *more), 4, 'conflict', 'token revoke')
    weir.good('token', 'revoke', 'ci', '-q')
    weir.good(*words, '-n')
    listener = Listener(weir)
    weir.environment['WEIR_TOKEN'] = weir.good('token', 'create', 'ops', '--role', 'admin', '--all-workspaces').out.strip()
    for more in ((), ('-n',)):
        said = weir.run(*words, '--store', f'http://127.0.0.1:{listener.port}', *more)
        assert_error(said, 2, 'invalid_argument', 'does not work through a server', 'with the URL of the store itself')
    listener.stop()


def slips_are_answered(weir):
    weir.make_store()
    for words, code, name in (
            (('create', 'ci', '--role', 'read'), 2, 'invalid_argument'),
            (('create', 'ci', '--all-workspaces'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'root', '--all-workspaces'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '--all-workspaces', '-w', 'acme'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '--role', 'admin', '--all-workspaces'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '-w', 'acm'), 3, 'workspace_not_found'),
            (('create', 'ci', '--role', 'read', '-w', 'acm', '-n'), 3, 'workspace_not_found'),
            (('create', '17', '--role', 'read', '-w', 'acme', '-n'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '-w', 'acme', '-n', '--expires-at', '2001-01-01T00:00:00Z'), 2,
             'invalid_argument'),
            (('create', '17', '--role', 'read', '-w', 'acme'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '-w', 'acme', '--expires-at', '2001-01-01T00:00:00Z'), 2,
             'invalid_argument'),
            (('create', 'ci', '--role', 'read', '-w', 'acme', '--max-body-bytes', '0'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '-w', 'acme', '--max-body-bytes', '16777217'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '-w', 'acme', '--rate', '0'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', '-w', 'acme', '--rate', '1000001'), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', *('-w', 'acme') * 101), 2, 'invalid_argument'),
            (('create', 'ci', '--role', 'read', *('-w', 'acme') * 200), 2, 'invalid_argument'),
            (('revoke', 'nobody'), 3, 'not_found'), (('revoke', 'nobody', '-n'), 3, 'not_found')):
        said = weir.run('token', *words)
        assert_error(said, code, name)
        assert said.out == '', repr(said)
    assert weir.items('token', 'list') == []


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
