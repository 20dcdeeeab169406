#!/usr/bin/env python3
"""weir before a real Temporal service, with a payload codec: the service sees encoded payloads alone, the worker and people
see what was meant.

usage: temporal_codec_test.py BINARY [TEST ...]      WEIR_MAKE_CERTIFICATE names the program that makes certificates
"""

import base64
import json
import os
import subprocess
import sys

from harness import run_tests
from temporal_codec import ENCODING, Codec
from temporal_parts import skip_unless_installed
from temporal_scene import (TOLD, ended, enqueue, prepare, prepare_settings, serve, show, the_server, the_step)
from waiting import wait_for

QUEUE = 'coded'
LONG_SECONDS = 60
shared = {}


def _begin(weir, codec, **settings):
    server = the_server()
    if 'worker' not in shared:
        shared['worker'] = server.worker(QUEUE, codec=True)
    prepare(weir, server, queue=QUEUE, codec_url=codec.url, **settings)
    return server


def _payloads(server, id):
    """Of the start and of the end, as the service has them."""
    return json.loads(server.ask('payloads', 'execution-' + id))


def _why(weir, id, wanted):
    return wait_for(f'why to say {wanted}', lambda: (lambda w: w if wanted in (w['engine_error'] or '') else None)(
        weir.good('why', id, '--json').json()))


def input_result_and_signals_are_encoded_on_their_way(weir):
    codec = Codec()
    codec.token = 'let-me-in'
    weir.write('token', 'let-me-in\n')
    server = _begin(weir, codec, codec_token_file=weir.path('token'))
    serve(weir)
    given = {'customer': 7, 'name': 'Zoë'}
    id, signalled = enqueue(weir, 'noop', given), enqueue(weir, 'signalled')
    assert the_step(ended(weir, id, 'COMPLETED'))['output'] == {'given': given}
    found = _payloads(server, id)
    assert len(found) == 2 and all(one['encoding'] == ENCODING.decode() for one in found), found
    assert 'customer' not in json.dumps([base64.b64decode(one['data']).decode('latin1') for one in found]), found
    wait_for('the start', lambda: show(weir, signalled)['status'] == 'DISPATCHED')
    asked = weir.good('temporal', 'query', signalled, 'has_word', '-p', '{"n": 1}', '--timeout', TOLD, '--json').json()
    assert asked['result'] == {'given': {'n': 1}, 'has': False}, asked
    changed = weir.good('temporal', 'update', signalled, 'change', '-p', '{"n": 2}', '--timeout', TOLD, '--json').json()
    assert changed['result'] == {'changed': {'n': 2}}, changed
    weir.good('signal', signalled, 'go', '--data', '{"by": "eve"}', '--timeout', TOLD)
    assert the_step(ended(weir, signalled, 'COMPLETED'))['output'] == {'word': {'by': 'eve'}}
    assert {request[1:] for request in codec.requests} == {('default', 'Bearer let-me-in')}, codec.requests
    assert {request[0] for request in codec.requests} == {'/encode', '/decode'}, codec.requests
    codec.stop()


def arguments_and_memo_of_a_workflow_with_its_own_id_are_encoded(weir):
    codec = Codec()
    server = _begin(weir, codec)
    section = {'workflow_type': 'Several', 'workflow_id': 'coded-${.input.order}',
               'args': ['${.input.order}', '${.input.lines}'], 'memo': {'for': '${.input.customer}'}}
    weir.write('several.yaml', f'name: several\ntemporal: {json.dumps(section)}\n')
    weir.good('workflow', 'apply', 'several.yaml', '-q')
    serve(weir)
    id = enqueue(weir, 'several', {'order': 17, 'lines': [1, {'a': 2}], 'customer': 'Zoë'})
    assert the_step(ended(weir, id, 'COMPLETED'))['output'] == {'order': 17, 'lines': [1, {'a': 2}]}
    found = json.loads(server.ask('payloads', 'coded-17'))
    assert len(found) == 3 and all(one['encoding'] == ENCODING.decode() for one in found), found
    memo = json.loads(server.ask('memo_encodings', 'coded-17'))
    assert memo == {'weir_execution': 'json/plain', 'weir_workspace': 'json/plain', 'for': ENCODING.decode()}, memo
    found = weir.good('temporal', 'describe', id, '--json', '--timeout', TOLD).json()
    assert found['workflow_id'] == 'coded-17', found
    assert found['memo'] == {'weir_execution': id, 'weir_workspace': 'acme', 'for': 'Zoë'}, found
    codec.stop()


def a_failure_comes_back_in_words(weir):
    codec = Codec()
    _begin(weir, codec)
    serve(weir)
    execution = ended(weir, enqueue(weir, 'fail'), 'FAILED')
    assert execution['error_code'] == 'CardDeclined', execution
    assert 'CardDeclined: the card was declined' in execution['error'], execution
    assert 'Encoded failure' not in execution['error'], execution
    codec.stop()


def a_codec_that_is_away_holds_starts_up_and_why_says_so(weir):
    codec = Codec()
    _begin(weir, codec)
    codec.stop()
    doctor = weir.run('doctor')
    assert doctor.code == 1 and 'the payload codec: ' in doctor.out and 'temporal.codec_url' in doctor.out, doctor
    serve(weir)
    id = enqueue(weir, 'noop')
    why = _why(weir, id, 'the payload codec: ')
    assert why['starts_refused'] == 0, why
    codec.start()
    wait_for('the doctor to be content', lambda: 'the payload codec encodes and decodes' in weir.run('doctor').out)
    assert ended(weir, id, 'COMPLETED')['starts_refused'] == 0
    codec.token = 'another'
    refused = enqueue(weir, 'noop')
    _why(weir, refused, 'the payload codec answered with status 401')
    codec.token = None
    ended(weir, refused, 'COMPLETED')
    codec.stop()


def a_codec_that_does_not_answer_holds_up_nothing_else(weir):
    codec = Codec()
    server = _begin(weir, codec)
    serve(weir)
    before = enqueue(weir, 'signalled')
    wait_for('the first run', lambda: shared['worker'].runs_of(before))
    codec.holds.add('/encode')
    waiting = enqueue(weir, 'noop')
    assert codec.held.wait(LONG_SECONDS)
    server.ask('signal', 'execution-' + before)
    ended(weir, before, 'COMPLETED')
    codec.holds.clear()
    codec.released.set()
    ended(weir, waiting, 'COMPLETED')
    codec.stop()


def an_input_that_the_codec_refuses_fails_with_its_own_code(weir):
    codec = Codec()
    _begin(weir, codec)
    codec.status['/encode'] = 422
    serve(weir)
    execution = ended(weir, enqueue(weir, 'noop'), 'FAILED')
    assert execution['error_code'] == 'codec_refused', execution
    assert 'answered with status 422: no such payload' in execution['error'], execution
    codec.stop()


def a_result_that_was_not_decoded_is_decoded_by_show(weir):
    codec = Codec()
    _begin(weir, codec)
    serve(weir)
    codec.status['/decode'] = 400
    completed, failed = enqueue(weir, 'noop', {'n': 7}), enqueue(weir, 'fail')
    execution = ended(weir, completed, 'COMPLETED')
    assert the_step(execution)['error_code'] == 'result_encoded', execution
    assert the_step(execution)['error'] == 'the payload codec answered with status 400: no such payload', execution
    assert list(the_step(execution)['output']) == ['encoded'], execution
    assert ended(weir, failed, 'FAILED')['error_code'] == 'CardDeclined'
    shown = weir.good('show', completed)
    assert 'an output is still encoded: the payload codec answered with status 400' in shown.err, shown
    codec.status['/decode'] = 200
    assert the_step(show(weir, completed))['output'] == {'given': {'n': 7}}
    shown = weir.good('show', completed)
    assert 'still encoded' not in shown.err and 'COMPLETED' in shown.out, shown
    assert 'the card was declined' in json.dumps(the_step(show(weir, failed))['output'])
    codec.stop()


def over_tls_the_codec_is_verified(weir):
    for name, signer, alternative in (('ca', '', ''), ('codec', 'ca', 'IP:127.0.0.1')):
        subprocess.run([os.environ['WEIR_MAKE_CERTIFICATE'], weir.folder, name, signer, alternative, '-60', '3600'],
                       check=True)
    codec = Codec(weir.path('codec.pem'), weir.path('codec.key'))
    server = _begin(weir, codec)
    serve(weir)
    id = enqueue(weir, 'noop')
    assert 'certificate' in _why(weir, id, 'the payload codec: ')['engine_error']
    weir.close()
    prepare_settings(weir, server, task_queue=QUEUE, codec_url=codec.url, codec_ca_file=weir.path('ca.pem'))
    serve(weir)
    ended(weir, id, 'COMPLETED')
    codec.stop()


def an_address_that_is_none_is_refused(weir):
    prepare(weir, the_server(), codec_url='codec.example')
    refused = weir.run('serve')
    assert refused.code == 2 and 'temporal.codec_url must begin with http' in refused.err, refused


if __name__ == '__main__':
    skip_unless_installed()
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
