#!/usr/bin/env python3
"""The wall between tenants: what the token of one workspace reads and changes over HTTP, on both stores.

Nothing of another workspace is in an answer, and a thing of another workspace is answered as a missing one. A token without
workspaces of its own, and a client without a token, are refused what would act on everything.

usage: http_walls_test.py BINARY [TEST ...]
"""

import contextlib
import json
import sys

from harness import run_tests
from http_client import Listener, problem, read_answer
from postgres_server import PostgresServer

SECRET = 'secret-merger'
MISSING = '01a215fd-f18a-7002-b43c-a0d8f870aebd'
SERVER = None


class Tenant:
    """A token of acme, and what belongs to tiny: an execution and a workflow."""

    def __init__(self, weir, role):
        weir.make_store()
        weir.write('secret.yaml', f'name: {SECRET}\nworkspace: tiny\nsteps:\n  greet:\n    exec: [echo, hello]\n')
        weir.good('workflow', 'apply', 'secret.yaml', '-q')
        self.theirs = weir.enqueue('-w', 'tiny', SECRET, '--run-at', '+1h')
        weir.enqueue('-w', 'tiny', SECRET, '--run-at', '+1h')
        self.mine = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
        words = ('--all-workspaces',) if role == 'all' else ('-w', 'acme')
        self.secret = weir.good('token', 'create', 'ci', '--role', 'admin' if role == 'all' else role, *words,
                                '-q').out.strip()
        self.weir = weir
        self.listener = Listener(weir).ready()

    def ask(self, path, method='GET', body=None, is_anonymous=False, **fields):
        content = b'' if body is None else json.dumps(body).encode()
        lines = [f'{method} {path} HTTP/1.1', 'Host: localhost']
        lines += [] if is_anonymous else [f'Authorization: Bearer {self.secret}']
        lines += [] if body is None else ['Content-Type: application/json', f'Content-Length: {len(content)}']
        lines += [f'{name.replace("_", "-")}: {value}' for name, value in fields.items()]
        with self.listener.connect() as connection:
            connection.sendall('\r\n'.join(lines).encode() + b'\r\n\r\n' + content)
            return read_answer(connection)


def _store(weir, store):
    """`store`: 'sqlite' or 'postgres'."""
    global SERVER
    if store == 'postgres':
        SERVER = SERVER or PostgresServer()
        weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


@contextlib.contextmanager
def _tenant(weir, role):
    tenant = Tenant(weir, role)
    yield tenant
    tenant.listener.stop()


def _same(first, second, *pairs):
    """Whether two refusals differ in nothing but these texts and the id of the request."""
    def text(answer):
        found = answer.json()
        found.pop('request_id', None)
        found = json.dumps(found)
        for one, other in pairs:
            found = found.replace(one, other)
        return answer.status, found
    assert text(first) == text(second), (first, second)


def _nothing_of_theirs(tenant, answer):
    assert SECRET.encode() not in answer.body and tenant.theirs.encode() not in answer.body, answer


# Of all workspaces. The tenant may run it, and is not to see for whom else it runs, and with which params.
TIMED = """name: timed
steps:
  own: {start: {workflow: hello, workspace: acme}}
  child: {start: {workflow: hello, workspace: tiny}}
  work: {exec: [echo, hello]}
finally:
  end: {start: {workflow: hello, workspace: tiny}}
schedules:
  nightly: {every: 1h, workspaces: [tiny], params: {name: secret}}
"""


def _timed(tenant):
    weir = tenant.weir
    weir.write('timed.yaml', TIMED)
    weir.write('mine.yaml', 'name: mine\nworkspace: acme\nsteps: {a: {sleep: 1s}}\nschedules: {own: {every: 1h}}\n')
    for name in ('timed', 'mine'):
        weir.good('workflow', 'apply', f'{name}.yaml', '-q')
    paths = '/v1/workflows/timed?workspace=acme', '/v1/workflows?workspace=acme&name=timed', '/v1/workflows?workspace=acme'
    for path in paths:
        answer = tenant.ask(path)
        assert b'tiny' not in answer.body and b'nightly' not in answer.body and b'secret' not in answer.body, answer
        row = next(row for row in answer.json()['items'] if row['name'] == 'timed')
        definition = json.loads(row['definition'])
        assert 'schedules' not in definition and row.get('source') is None, row
        assert definition['steps']['own']['start'] == {'workflow': 'hello', 'workspace': 'acme'}, row
        assert definition['steps']['child']['start'] == {'workflow': 'hello'}, row
    own = tenant.ask('/v1/workflows/mine?workspace=acme').json()['items'][0]
    assert own['source'] is not None and 'own' in json.loads(own['definition'])['schedules'], own
    operator = weir.good('workflow', 'show', 'timed', '--json').json()
    assert 'nightly' in json.dumps(operator), operator
    problem(tenant.ask('/v1/definitions/1'), 403, 'not_permitted')


def _workflows(weir):
    with _tenant(weir, 'read') as tenant:
        names = [row['name'] for row in tenant.ask('/v1/workflows?workspace=acme').json()['items']]
        assert names == ['hello'], names
        shown = tenant.ask(f'/v1/workflows/{SECRET}?workspace=acme')
        problem(shown, 404, 'workflow_not_found')
        _same(shown, tenant.ask('/v1/workflows/secret-murder?workspace=acme'), (SECRET, 'secret-murder'))
        assert tenant.ask('/v1/workflows/hello?workspace=acme').status == 200
        _timed(tenant)


def the_workflows_of_others_are_missing_on_sqlite(weir):
    _workflows(weir)


def the_workflows_of_others_are_missing_on_postgres(weir):
    _store(weir, 'postgres')
    _workflows(weir)


def _ids(weir):
    with _tenant(weir, 'operate') as tenant:
        for wanted in (tenant.theirs[:6], tenant.theirs[:12], tenant.theirs):
            order = {'action': 'cancel', 'filter': {'workspace': 'acme', 'id': wanted}, 'dry_run': True}
            for body in (order, {**order, 'dry_run': False}, {**order, 'filter': f'workspace=acme id={wanted}'}):
                answer = tenant.ask('/v1/bulk', 'POST', body)
                problem(answer, 404, 'execution_not_found')
                if wanted == tenant.theirs:
                    missing = json.loads(json.dumps(body).replace(wanted, MISSING))
                    _same(answer, tenant.ask('/v1/bulk', 'POST', missing), (wanted, MISSING))
            paths = [f'/v1/executions:act?workspace=acme&id={wanted}',
                     f'/v1/executions:act?workspace=acme&where=id%3D{wanted}']
            paths += [path.replace(':act', '') for path in paths]
            for path in paths:
                method, body = ('POST', {'action': 'cancel'}) if ':act' in path else ('GET', None)
                answer = tenant.ask(path, method, body)
                problem(answer, 404, 'execution_not_found')
                if wanted == tenant.theirs:
                    _same(answer, tenant.ask(path.replace(wanted, MISSING), method, body), (wanted, MISSING))
        for path in (f'/v1/executions/{tenant.mine.upper()}', f'/v1/executions?workspace=acme&id={tenant.mine.upper()}',
                     f'/v1/executions/{tenant.mine.upper()}/logs'):
            assert tenant.ask(path).status == 200, path
        problem(tenant.ask(f'/v1/executions/{tenant.theirs.upper()}'), 404, 'execution_not_found')
        assert weir.good('show', tenant.theirs, '--json').json()['status'] == 'PENDING'
        done = tenant.ask(f'/v1/executions:act?workspace=acme&id={tenant.mine}', 'POST', {'action': 'cancel'})
        assert done.json()['changed'] == 1, done


def the_ids_of_others_are_missing_on_sqlite(weir):
    _ids(weir)


def the_ids_of_others_are_missing_on_postgres(weir):
    _store(weir, 'postgres')
    _ids(weir)


def _names(weir):
    with _tenant(weir, 'operate') as tenant:
        path = '/v1/workspaces/acme/executions'
        theirs = tenant.ask(path, 'POST', {'workflow': SECRET})
        problem(theirs, 404, 'workflow_not_found')
        _same(theirs, tenant.ask(path, 'POST', {'workflow': 'secret-murder'}), (SECRET, 'secret-murder'))
        near = tenant.ask(path, 'POST', {'workflow': SECRET + 's'})
        problem(near, 404, 'workflow_not_found')
        assert f'"{SECRET}"' not in near.body.decode(), near
        items = [{'workspace': 'acme', 'workflow': name} for name in (SECRET, 'secret-murder', SECRET + 's')]
        answers = tenant.ask('/v1/executions:batch', 'POST', {'items': items}).json()['items']
        assert [answer['code'] for answer in answers] == ['workflow_not_found'] * 3, answers
        assert {key: value.replace(SECRET, 'secret-murder') for key, value in answers[0].items() if key != 'status'} == \
            {key: value for key, value in answers[1].items() if key != 'status'}, answers
        whole = tenant.ask('/v1/executions:batch?atomic', 'POST', {'items': items[:1]})
        problem(whole, 404, 'workflow_not_found')
        for name in (SECRET, SECRET + 's'):
            order = {'action': 'cancel', 'filter': {'workspace': 'acme', 'workflow': name}, 'dry_run': True}
            answer = tenant.ask('/v1/bulk', 'POST', order)
            problem(answer, 404, 'workflow_not_found')
            assert 'did you mean' not in answer.body.decode(), answer
        order['filter']['workflow'] = 'hello'
        assert tenant.ask('/v1/bulk', 'POST', order).json()['matched'] == 1


def the_names_of_others_are_missing_on_sqlite(weir):
    _names(weir)


def the_names_of_others_are_missing_on_postgres(weir):
    _store(weir, 'postgres')
    _names(weir)


def _groups(weir):
    with _tenant(weir, 'enqueue') as tenant:
        weir.make_groups('gpu-of-tiny')
        answer = tenant.ask('/v1/workspaces/acme/executions', 'POST', {'workflow': 'hello', 'executor_group': 'gpu'})
        problem(answer, 404, 'not_found')
        assert 'gpu-of-tiny' not in answer.body.decode(), answer


def a_refusal_names_no_group_on_sqlite(weir):
    _groups(weir)


def a_refusal_names_no_group_on_postgres(weir):
    _store(weir, 'postgres')
    _groups(weir)


def _schedules(weir):
    with _tenant(weir, 'operate') as tenant:
        times = ('--every', '1h', '--workflow', 'hello', '-q')
        for name, *words in (('a-tiny', '-w', 'tiny'), ('b-both', '-w', 'acme', '-w', 'tiny'), ('c-mine', '-w', 'acme'),
                             ('d-plan', '--plan', 'pro'), ('e-mine', '-w', 'acme'), ('f-tiny', '-w', 'tiny')):
            weir.good('schedule', 'set', name, *words, *times)
        listed = tenant.ask('/v1/schedules').json()
        assert [row['name'] for row in listed['items']] == ['c-mine', 'e-mine'], listed
        assert (listed['next_cursor'], listed['count'], listed['count_is_exact']) == (None, 2, True), listed
        first = tenant.ask('/v1/schedules?limit=1').json()
        assert (first['items'][0]['name'], first['next_cursor'], first['count_is_exact']) == ('c-mine', 'c-mine', False)
        second = tenant.ask('/v1/schedules?limit=1&cursor=c-mine').json()
        assert (second['items'][0]['name'], second['next_cursor']) == ('e-mine', None), second
        assert tenant.ask('/v1/schedules?name=b-both').json()['items'] == []
        for name in ('a-tiny', 'b-both', 'd-plan'):
            for method, act in (('GET', ''), ('POST', '/pause'), ('POST', '/resume'), ('POST', '/trigger')):
                answer = tenant.ask(f'/v1/schedules/{name}{act}', method)
                problem(answer, 404, 'not_found')
                _same(answer, tenant.ask(f'/v1/schedules/missing{act}', method), (name, 'missing'))
        shown = tenant.ask('/v1/schedules/c-mine').json()
        assert (shown['name'], len(shown['times'])) == ('c-mine', 5), shown
        assert tenant.ask('/v1/schedules/c-mine/pause', 'POST').json() == {'name': 'c-mine', 'paused': True}
        assert tenant.ask('/v1/schedules/c-mine/resume', 'POST').json() == {'name': 'c-mine', 'paused': False}
        assert tenant.ask('/v1/schedules/c-mine/trigger', 'POST').json()['firings'] == 1
        others = {name: tenant.ask('/v1/schedules/c-mine/trigger', 'POST', {'workspaces': [name]})
                  for name in ('tiny', 'tinx', 'missing')}
        for name, answer in others.items():
            assert problem(answer, 404, 'workspace_not_found').get('hint') is None, answer
            _same(answer, others['missing'], (name, 'missing'))
        problem(tenant.ask('/v1/schedules/c-mine', 'DELETE'), 403, 'not_permitted')
        body = {'every_us': 60000000, 'workflow': 'hello', 'workspaces': ['acme']}
        problem(tenant.ask('/v1/schedules/c-mine', 'PUT', body), 403, 'not_permitted')
        paused = [row['name'] for row in weir.items('schedule', 'list') if row['paused']]
        assert paused == [], paused


def the_schedules_of_others_are_missing_on_sqlite(weir):
    _schedules(weir)


def the_schedules_of_others_are_missing_on_postgres(weir):
    _store(weir, 'postgres')
    _schedules(weir)


def a_schedule_of_a_deleted_workspace_is_missing(weir):
    with _tenant(weir, 'operate') as tenant:
        weir.good('workspace', 'set', 'old', '--plan', 'pro', '-q')
        weir.good('schedule', 'set', 'both', '--every', '1h', '--workflow', 'hello', '-w', 'acme', '-w', 'old', '-q')
        weir.good('workspace', 'delete', 'old', '--yes', '-q')
        assert tenant.ask('/v1/schedules').json()['items'] == []
        problem(tenant.ask('/v1/schedules/both/pause', 'POST'), 404, 'not_found')


def a_tenant_does_not_raise_its_own_limit(weir):
    with _tenant(weir, 'admin') as tenant:
        before = weir.items('workspace', 'list')
        for method in ('PUT', 'PATCH'):
            for body in ({'plan': 'enterprise'}, {'plan': 'enterprize'}, {'max_concurrent': 1000},
                         {'max_concurrent': None}, {'max_pending': 0}, {'max_pending': None}):
                answer = tenant.ask('/v1/workspaces/acme', method, body)
                found = problem(answer, 403, 'not_permitted')
                assert found['errors'][0]['pointer'] == '/' + next(iter(body)), answer
        assert weir.items('workspace', 'list') == before
        own = {'name': 'own', 'workspace': 'acme', 'steps': {'a': {'sleep': '1ms'}}}
        timed = {**own, 'schedules': {'mine': {'every': '1h'}}}
        problem(tenant.ask('/v1/workflows?workspace=acme', 'POST', timed), 403, 'not_permitted')
        assert weir.items('schedule', 'list') == []
        weir.write('own.json', json.dumps(timed))
        weir.good('workflow', 'apply', 'own.json', '-q')
        for path, *order in (('/v1/workflows?workspace=acme', 'POST', own), ('/v1/workflows/own?workspace=acme', 'DELETE')):
            assert 'has schedules' in problem(tenant.ask(path, *order), 403, 'not_permitted')['detail']
        assert [row['name'] for row in weir.items('schedule', 'list')] == ['mine']
        weir.write('own.json', json.dumps(own))
        weir.good('workflow', 'apply', 'own.json', '-q')
        own['steps']['b'] = {'sleep': '1ms'}
        assert tenant.ask('/v1/workflows?workspace=acme', 'POST', own).status == 201
        assert tenant.ask('/v1/workspaces/acme', 'PATCH', {'paused': True}).status == 200


def a_tenant_erases_no_history(weir):
    with _tenant(weir, 'admin') as tenant:
        weir.good('cancel', tenant.mine, '--yes', '-q')
        problem(tenant.ask('/v1/workspaces/acme?erase', 'DELETE'), 403, 'not_permitted')
        assert [row['name'] for row in weir.items('workspace', 'list')] == ['acme', 'tiny']
        assert tenant.ask('/v1/workspaces/acme', 'DELETE').status == 200
        problem(tenant.ask('/v1/workspaces/acme/history', 'DELETE'), 403, 'not_permitted')
        assert weir.good('show', tenant.mine, '--json').json()['status'] == 'CANCELLED'


def an_act_without_a_filter_acts_on_nothing(weir):
    with _tenant(weir, 'all') as tenant:
        for path in ('/v1/executions:act', '/v1/executions:act?where=', '/v1/executions:act?where=%20'):
            problem(tenant.ask(path, 'POST', {'action': 'cancel'}), 400, 'invalid_argument')
        assert {row['status'] for row in weir.items('list')} == {'PENDING'}
        done = tenant.ask('/v1/executions:act?status=pending', 'POST', {'action': 'cancel'})
        assert done.json()['changed'] == 3, done


def texts_of_a_bulk_act_are_whole_and_bounded(weir):
    with _tenant(weir, 'all') as tenant:
        order = {'action': 'cancel', 'filter': {'workspace': 'acme'}, 'dry_run': True}
        for wrong in ({'action': 'cancel\0x'}, {'reason': 'a\0b'}, {'filter': 'workspace=acme\0 status=failed'},
                      {'filter': {'workspace': 'acme\0x'}}, {'filter': {'workspace': 'acme', 'error_code': 'x\0'}}):
            answer = tenant.ask('/v1/bulk', 'POST', {**order, **wrong})
            found = problem(answer, 400, 'invalid_argument')
            assert found['errors'][0]['pointer'] == '/' + next(iter(wrong)), answer
        long = tenant.ask('/v1/bulk', 'POST', {**order, 'dry_run': False, 'filter': {'workspace': 'acme',
                                                                                    'error_code': 'x' * 9000}})
        assert '4096 bytes' in problem(long, 400, 'invalid_argument')['detail'], long
        assert tenant.ask('/v1/bulk', 'POST', order).json()['matched'] == 1


def a_lock_is_not_taken_for_ever(weir):
    with _tenant(weir, 'all') as tenant:
        most = 3650 * 86400 * 1000000
        for wrong in ({'at_most_us': 2 ** 63 - 1}, {'at_most_us': most + 1}, {'at_most_us': most, 'at_least_us': most + 1}):
            for method in ('POST', 'PATCH'):
                problem(tenant.ask('/v1/locks/job', method, {'holder': 'me', **wrong}), 400, 'invalid_argument')
        assert weir.items('lock', 'list') == []
        assert tenant.ask('/v1/locks/job', 'POST', {'holder': 'me', 'at_most_us': most}).status == 200
        problem(tenant.ask(f'/v1/locks/job?holder=me&at_least_us={most + 1}', 'DELETE'), 400, 'invalid_argument')
        assert tenant.ask('/v1/locks/job?holder=me', 'DELETE').status == 200
        assert not weir.items('lock', 'list')[0]['held']


def a_noted_act_has_a_name_of_its_own(weir):
    with _tenant(weir, 'all') as tenant:
        before = weir.items('audit')
        for act in ('token create', 'token', 'purge', 'workspace delete', 'store migrate', '', 'x' * 65):
            answer = tenant.ask('/v1/audit', 'POST', {'act': act, 'subject': 'ci'})
            problem(answer, 400, 'invalid_argument')
        assert weir.items('audit') == before
        assert tenant.ask('/v1/audit', 'POST', {'act': 'signal', 'subject': 'ci'}).status == 200
        assert weir.items('audit')[0]['act'] == 'signal'


def a_client_without_a_token_acts_as_none(weir):
    weir.environment['WEIR_HTTP_ANONYMOUS'] = 'true'
    with _tenant(weir, 'all') as tenant:
        for actor in ('token:ci', 'TOKEN:ci', 'token:'):
            answer = tenant.ask('/v1/pause', 'POST', is_anonymous=True, weir_actor=actor)
            problem(answer, 400, 'invalid_argument')
            assert 'Weir-Actor' in answer.json()['detail'], answer
        assert weir.items('audit', '--act', 'pause') == []
        assert tenant.ask('/v1/pause', 'POST', is_anonymous=True, weir_actor='ada').status == 200
        assert weir.items('audit', '--act', 'pause')[0]['actor'] == 'ada'
        assert tenant.ask('/v1/resume', 'POST', weir_actor='token:another').status == 200
        assert weir.items('audit', '--act', 'resume')[0]['actor'] == 'token:ci'


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
