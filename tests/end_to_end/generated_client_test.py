#!/usr/bin/env python3
"""A client that openapi-python-client makes of /openapi.json works against a server (`./dev check openapi`).

usage: generated_client_test.py WEIR    with the generator beside the interpreter
"""

import importlib
import json
import os
import subprocess
import sys

from harness import TIMEOUT_SECONDS, run_tests
from http_client import Listener

# The generator knows JSON bodies alone. Each of these routes takes JSON, too.
KNOWN_WARNINGS = ['Unsupported content type application/x-ndjson', 'Unsupported content type application/yaml']


def _generate(weir, listener):
    weir.write('openapi.json', listener.ask('/openapi.json').body)
    weir.write('config.yaml', 'post_hooks: []\npackage_name_override: weir_api\nproject_name_override: weir-api\n')
    generator = os.path.join(os.path.dirname(sys.executable), 'openapi-python-client')
    made = subprocess.run([generator, 'generate', '--path', weir.path('openapi.json'), '--config', weir.path('config.yaml'),
                           '--meta', 'none', '--output-path', weir.path('made/weir_api')],
                          capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    said = made.stdout + made.stderr
    assert made.returncode == 0, said
    warnings = [line for line in said.splitlines() if line.startswith('Unsupported') or 'Cannot' in line or 'ERROR' in line]
    assert sorted(warnings) == KNOWN_WARNINGS, said
    sys.path.insert(0, weir.path('made'))


def _part(name):
    return importlib.import_module('weir_api.' + name)


def _secret_of_token(weir):
    return weir.good('token', 'create', 'generated', '--role', 'admin', '--all-workspaces', '-q').out.strip()


def the_description_is_valid_openapi(weir):
    weir.make_store()
    listener = Listener(weir)
    description = json.loads(listener.ask('/openapi.json').body)
    listener.stop()
    validator = importlib.import_module('openapi_spec_validator').OpenAPIV31SpecValidator
    assert [error.message for error in validator(description).iter_errors()] == []
    description['paths']['/v1/status']['get']['responses'] = {}  # the standard wants one at least
    assert not validator(description).is_valid()


def a_client_of_the_description_works(weir):
    weir.make_store()
    secret = _secret_of_token(weir)
    listener = Listener(weir)
    _generate(weir, listener)
    address = f'http://127.0.0.1:{listener.port}'
    client = _part('client').AuthenticatedClient(base_url=address, token=secret, raise_on_unexpected_status=True,
                                                 timeout=TIMEOUT_SECONDS)
    models = _part('models')

    def call(name, *words, **options):
        answer = _part('api.' + name).sync(*words, client=client, **options)
        assert not isinstance(answer, models.Problem), answer
        return answer

    definition = models.Definition.from_dict({'name': 'greet', 'steps': {'say': {'exec': ['echo', '${.input.name}']}}})
    published = call('workflows.publish_workflow', body=definition)
    assert (published.name, published.version) == ('greet', 1), published
    request = models.EnqueueRequest.from_dict({'workflow': 'greet', 'params': {'name': 'ada'}, 'idempotency_key': 'one'})
    first = call('workspaces.enqueue_execution', 'acme', body=request)
    again = call('workspaces.enqueue_execution', 'acme', body=request)
    assert isinstance(first.id, str) and first.id == again.id and not first.duplicate and again.duplicate, (first, again)
    ended = call('executions.show_execution', first.id, wait='60s')
    assert ended.status == 'COMPLETED' and ended.params == {'name': 'ada'}, ended
    assert ended.finished_at >= ended.created_at and [step.step for step in ended.steps] == ['say'], ended
    assert call('executions.read_result', first.id) == 'ada'
    assert call('executions.explain_execution', first.id).because, first.id

    call('workspaces.pause_workspace', 'acme')
    unnamed = models.EnqueueRequest.from_dict({'workflow': 'greet', 'params': {'name': 'eve'}})
    waiting = [call('workspaces.enqueue_execution', 'acme', body=unnamed).id for _ in range(3)]
    why = call('executions.explain_execution', waiting[0])
    assert why.pending_reason == 'workspace_paused' and why.status == 'PENDING', why
    page = call('executions.list_executions', status='PENDING', limit='2')
    rest = call('executions.list_executions', status='PENDING', limit='2', cursor=page.next_cursor)
    assert {row.id for row in [*page.items, *rest.items]} == set(waiting), (page, rest)
    assert call('executions.cancel_execution', waiting[0]).id == waiting[0]
    call('workspaces.resume_workspace', 'acme')
    for id in waiting[1:]:
        assert call('executions.show_execution', id, wait='60s').status == 'COMPLETED'

    missing = _part('api.executions.show_execution').sync('01900000-0000-7000-8000-000000000000', client=client)
    assert isinstance(missing, models.Problem) and missing.code == 'execution_not_found' and missing.status == 404, missing
    stranger = _part('client').AuthenticatedClient(base_url=address, token='weir_' + 'x' * 43)
    refused = _part('api.status.show_status').sync(client=stranger)
    assert refused.status == 401 and refused.request_id, refused
    listener.stop()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules['__main__'], sys.argv[1]))
