#!/usr/bin/env python3
"""The embedded default needs no network: it asks the kernel for no socket but local ones.

usage: offline_test.py BINARY [TEST ...]

Every command runs under no_network, which refuses each such socket and writes it down before the program hears of it.
"""

import os
import signal
import sys

from harness import run_tests
from waiting import SECONDS_MOST, SHORT, wait_for

NO_NETWORK = os.environ['WEIR_NO_NETWORK']
REPORT = 'sockets'


def _without_network(weir):
    wrapper = weir.write('weir', f'#!/bin/sh\nexec {NO_NETWORK} {weir.path(REPORT)} {weir.binary} "$@"\n')
    os.chmod(wrapper, 0o755)
    weir.binary = wrapper


def _sockets(weir):
    """What was asked for. The report is made before the program begins: where it is missing, nothing was watched."""
    with open(weir.path(REPORT)) as report:
        return report.read()


def a_store_that_is_elsewhere_is_seen_to_ask_for_a_socket(weir):
    result = weir.run('doctor', '--store', 'postgres://127.0.0.1:1/none')
    assert result.code != 0 and 'asked for a socket of family 2\n' in _sockets(weir), repr(result) + _sockets(weir)


def what_a_step_asks_for_is_seen(weir):
    weir.make_store()
    script = 'import socket, sys\\ntry: socket.socket()\\nexcept PermissionError: sys.exit(9)'
    weir.write('call.yaml', f'name: call\nsteps:\n  ask:\n    exec: ["{sys.executable}", -c, "{script}"]\n')
    weir.good('workflow', 'apply', 'call.yaml', '-q')
    node = weir.spawn('dev')
    assert weir.run('enqueue', '-w', 'acme', 'call', '--wait').code == 1
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS_MOST) == 0
    assert 'asked for a socket of family 2\n' in _sockets(weir)


def the_demo_asks_for_no_socket(weir):
    assert '100 done in' in weir.good('demo', '--once', env={'WEIR_HTTP_LISTEN': 'none'}).out
    assert _sockets(weir) == '', _sockets(weir)


def a_node_its_store_and_all_that_is_asked_of_them_need_no_socket(weir):
    node = weir.spawn('dev', '--listen', 'none')
    wait_for('the store', lambda: weir.run('list').code == 0)
    weir.good('demo', '--eject')
    weir.good('workflow', 'apply', 'onboard-customer.yaml')
    id = weir.good('enqueue', '-w', 'default', 'onboard-customer', '-p', '{"customer": 42}', '--wait').out.split()[0]
    for words in (('list',), ('show', id), ('why', id), ('logs', id), ('status',), ('top', '--once'), ('doctor',),
                  ('node', 'list'), ('workspace', 'set', 'acme', '--plan', 'pro'), ('store', 'check'),
                  ('store', 'backup', 'copy.db')):
        weir.good(*words)
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS_MOST) == 0
    served = weir.spawn('serve', env={'WEIR_EXEC_ALLOW': 'true'})
    wait_for('its start', lambda: b'node.started' in served.stdout.readline(), pause=SHORT)
    weir.good('enqueue', '-w', 'default', 'onboard-customer', '-p', '{"customer": 43}', '--wait')
    served.send_signal(signal.SIGTERM)
    assert served.wait(SECONDS_MOST) == 0
    assert _sockets(weir) == '', _sockets(weir)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], prepare=_without_network))
