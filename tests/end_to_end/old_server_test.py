#!/usr/bin/env python3
"""A PostgreSQL server that is really too old for weir; postgres_test.py has one that only says so. `./dev check versions`
runs it with version 12.

usage: old_server_test.py BINARY [TEST ...]      WEIR_POSTGRES_PROGRAMS names the folder of the server's programs
"""

import sys

from harness import run_tests
from postgres_server import PostgresServer


def every_command_refuses_a_server_that_is_too_old_and_changes_nothing(weir):
    server = PostgresServer()
    version = server.sql('SHOW server_version').split('.')[0]
    assert int(version) < 13, f'WEIR_POSTGRES_PROGRAMS has PostgreSQL {version}, which is not too old'
    weir.environment['WEIR_STORE'] = server.url()
    weir.write('hello.yaml', 'name: hello\nsteps:\n  greet:\n    exec: [echo, hello]\n')
    for words in (('store', 'init'), ('store', 'migrate'), ('store', 'plan'), ('store', 'check'), ('serve',), ('dev',),
                  ('enqueue', '-w', 'acme', 'hello'), ('list',), ('status',), ('workflow', 'apply', 'hello.yaml')):
        result = weir.run(*words, code=6)
        lines = result.err.splitlines()
        assert len(lines) == 2, (words, result)
        assert f'is on PostgreSQL {version}, which is too old' in lines[0] and server.url() in lines[0], (words, lines)
        assert lines[1].startswith('hint: weir needs PostgreSQL 13 or newer; nothing was changed'), (words, lines)
    assert server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'weir'") == '0'


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
