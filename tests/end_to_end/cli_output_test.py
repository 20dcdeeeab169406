#!/usr/bin/env python3
"""The output of commands for programs and for people: results, ends, names of fields.

usage: cli_output_test.py BINARY [TEST ...]
"""

import json
import subprocess
import sys

from harness import UUID, run_tests
from waiting import wait_for


def _start_node(weir, *words):
    node = weir.spawn('dev', *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_up():
        assert node.poll() is None
        return any(row['state'] == 'alive' for row in weir.items('node', 'list'))
    wait_for('the coming up of the node', is_up)
    return node


def _publish(weir, name, program):
    weir.write('w.json', json.dumps({'name': name, 'steps': {'only': {'exec': ['sh', '-c', program]}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')


def enqueue_with_wait_prints_the_end_and_the_result(weir):
    weir.make_store()
    _publish(weir, 'good', 'printf \'{"id": 7}\'')
    _publish(weir, 'silent', ':')
    _publish(weir, 'large', 'printf "%5000s" x')
    waits = ('--wait', '--timeout', '45s')
    late = weir.run('enqueue', '-w', 'acme', 'good', '--wait', '--timeout', '0', '--json')
    assert late.code == 7 and UUID.match(late.json()['id']) and late.json()['status'] == 'PENDING', repr(late)
    assert 'result' not in late.json(), repr(late)
    _start_node(weir)
    first = weir.good('enqueue', '-w', 'acme', 'good', *waits, '--json', '-k', 'once').json()
    id = first.pop('id')
    assert first == {'status': 'COMPLETED', 'duplicate': False, 'error_code': None, 'error': None,
                     'result': {'id': 7}}, first
    known = weir.good('enqueue', '-w', 'acme', 'good', *waits, '--json', '-k', 'once').json()
    assert known == {**first, 'id': id, 'duplicate': True}, known
    text = weir.good('enqueue', '-w', 'acme', 'good', *waits)
    assert UUID.match(text.out.strip()) and text.err == '✓ COMPLETED: {"id":7}\n', repr(text)
    assert '✓ COMPLETED: {"id":7}' in weir.terminal('enqueue', '-w', 'acme', 'good', *waits, env={'NO_COLOR': '1'}).out
    assert weir.good('enqueue', '-w', 'acme', 'silent', *waits).err.startswith('✓ COMPLETED')
    assert 'bytes; --json prints them' in weir.good('enqueue', '-w', 'acme', 'large', *waits).err
    assert weir.good('wait', id).out.splitlines() == [f'✓ {id} COMPLETED', '{"id":7}']
    assert weir.good('wait', id, '--json').json()['result'] == {'id': 7}


def a_failed_end_is_printed_as_json_with_its_error(weir):
    weir.make_store()
    _publish(weir, 'bad', 'echo "it broke" >&2; exit 3')
    _start_node(weir)
    failed = weir.run('enqueue', '-w', 'acme', 'bad', '--wait', '--timeout', '45s', '--json')
    assert failed.code == 1 and failed.json()['status'] == 'FAILED' and failed.json()['result'] is None, repr(failed)
    assert failed.json()['error_code'] == 'exit_3' and 'it broke' in failed.json()['error'], repr(failed)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
