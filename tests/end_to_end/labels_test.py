#!/usr/bin/env python3
"""Labels and business keys from the command line and over HTTP, and a signal to all executions of a key.

usage: labels_test.py BINARY [--postgres] [TEST ...]
"""

import contextlib
import json
import sqlite3
import subprocess
import sys

from harness import run_tests
from http_client import Listener
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = PostgresServer() if '--postgres' in sys.argv else None


def _use_postgres(weir):
    weir.database = POSTGRES.database()
    weir.environment['WEIR_STORE'] = POSTGRES.url(weir.database)


def _pay(weir):
    """A workflow with a label of its own, whose step waits for a payment."""
    weir.make_store()
    weir.write('pay.yaml', 'name: pay\nlabels: {team: core, tier: bronze}\nsteps:\n  wait: {signal: paid}\n')
    weir.good('workflow', 'apply', 'pay.yaml', '-q')


def _ids(weir, *words):
    return [item['id'] for item in weir.items('list', *words)]


def executions_are_found_by_what_they_are_about(weir):
    _pay(weir)
    gold = weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-17', '--label', 'tier=gold', '--label', 'zone=a')
    plain = weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-18')
    line = {'workspace': 'acme', 'workflow': 'pay', 'business_key': 'order-17', 'labels': {'tier': 'gold'}}
    (lined,) = weir.good('enqueue', '-', '-q', stdin=json.dumps(line) + '\n').out.split()
    shown = weir.show(gold)
    assert shown['business_key'] == 'order-17', shown
    assert shown['labels'] == {'team': 'core', 'tier': 'gold', 'zone': 'a'}, shown
    assert weir.show(plain)['labels'] == {'team': 'core', 'tier': 'bronze'}
    text = weir.good('show', gold).out
    assert 'order-17' in text and 'zone=a' in text, text
    assert _ids(weir, '-w', 'acme', '--where', 'business_key=order-17') == [lined, gold]
    assert _ids(weir, '-w', 'acme', '--where', 'business_key_prefix=order-') == [lined, plain, gold]
    assert _ids(weir, '--where', 'label.team=core label.tier=bronze') == [plain]
    weir.good('cancel', '-w', 'acme', '--where', 'label.zone=a', '--expect', '1')
    assert weir.show(gold)['status'] == 'CANCELLED'
    assert _ids(weir, '-w', 'acme', '--where', 'label.tier=gold status=cancelled') == [gold]
    again = weir.good('retry', gold, '-q').out.strip()
    assert weir.show(again)['labels'] == shown['labels'] and weir.show(again)['business_key'] == 'order-17'
    for words, hint in ((('--label', 'tier'), 'not NAME=VALUE'), (('--label', 'Tier=x'), 'not the name of a label'),
                        (('--label', 'a=b', '--label', 'a=c'), 'given twice')):
        refused = weir.run('enqueue', '-w', 'acme', 'pay', *words)
        assert refused.code != 0 and hint in refused.err, refused
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def a_label_of_a_definition_is_a_fixed_text(weir):
    weir.make_store()
    for labels, fault in (('{Team: core}', 'not the name of a label'), ('{team: "${.input.team}"}', 'fixed value'),
                          ('[core]', 'must be a map')):
        weir.write('wrong.yaml', f'name: wrong\nlabels: {labels}\nsteps:\n  one: {{exec: ["true"]}}\n')
        refused = weir.run('workflow', 'apply', 'wrong.yaml')
        assert refused.code != 0 and fault in refused.err, refused


def a_signal_reaches_all_executions_of_a_key(weir):
    _pay(weir)
    node = weir.spawn('serve', '--allow-exec', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    weir.good('workspace', 'set', 'acme', '--max-concurrent', '10', '-q')
    ids = [weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-17') for _ in range(3)]
    other = weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-18')
    for id in [*ids, other]:
        wait_for(f'the park of {id}', lambda id=id: weir.show(id)['status'] == 'WAITING', pause=SHORT)
    order = ('signal', '-w', 'acme', '--where', 'business_key=order-17', 'paid', '--key', 'payment-1')
    assert weir.good(*order, '--dry-run', '--json').json()['matched'] == 3
    refused = weir.run(*order, '--expect', '2')
    assert refused.code != 0 and '3 executions match' in refused.err, refused
    assert 'needs --key' in weir.run(*order[:-2]).err
    sent = weir.good(*order, '--data', '{"sum": 7}', '--json').json()
    assert (sent['act'], sent['changed'], sent['refused']) == ('signal', 3, 0), sent
    for id in ids:
        assert weir.ended(id)['status'] == 'COMPLETED'
        assert [row['data'] for row in weir.show(id)['signals']] == [{'sum': 7}]
    assert weir.show(other)['status'] == 'WAITING'
    node.terminate()
    node.wait()


def the_api_takes_labels_and_broadcasts(weir):
    _pay(weir)
    listener = Listener(weir).ready()
    path = '/v1/workspaces/acme/executions'
    body = {'workflow': 'pay', 'business_key': 'order 17', 'labels': {'tier': 'gold'}}
    id = listener.ask(path, 'POST', body=body).json()['id']
    listener.ask(path, 'POST', body={'workflow': 'hello', 'business_key': 'order 17'})
    shown = listener.ask(f'/v1/executions/{id}').json()
    assert shown['business_key'] == 'order 17' and shown['labels'] == {'team': 'core', 'tier': 'gold'}, shown
    listed = listener.ask('/v1/executions?workspace=acme&business_key_prefix=order&label.tier=gold').json()
    assert [item['id'] for item in listed['items']] == [id], listed
    for spelt in ('label[tier]=gold', 'label%5Btier%5D=gold'):  # as clients that are made of the description send it
        items = listener.ask(f'/v1/executions?workspace=acme&{spelt}').json()['items']
        assert [item['id'] for item in items] == [id], spelt
    assert listener.ask('/v1/executions?label[tier]=tin').json()['items'] == []
    wrong = listener.ask(path, 'POST', body={'workflow': 'pay', 'labels': {'Tier': 'gold'}})
    assert wrong.status == 400, wrong
    order = {'action': 'signal', 'filter': {'workspace': 'acme', 'business_key': 'order 17', 'label.tier': 'gold'},
             'signal': {'name': 'paid', 'key': 'p1', 'data': {'sum': 7}}}
    answer = listener.ask('/v1/bulk', 'POST', body=order)
    assert answer.status == 202, answer
    job = wait_for('the end of the act', lambda: (lambda at: at if at['state'] != 'running' else None)(
        listener.ask(f'/v1/bulk/{answer.json()["id"]}').json()), pause=SHORT)
    assert (job['state'], job['changed'], job['refused']) == ('done', 1, 0), job
    assert listener.ask(f'/v1/executions/{id}').json()['signals'][0]['data'] == {'sum': 7}
    chunk = {'action': 'signal', 'signal': {'name': 'paid', 'key': 'p1', 'data': {'sum': 7}}}  # the same once more
    sent = listener.ask('/v1/executions:act?workspace=acme&label.tier=gold', 'POST', body=chunk).json()
    assert (sent['matched'], sent['changed'], sent['refused']) == (1, 0, 0), sent
    chunk['signal']['data'] = None
    sent = listener.ask('/v1/executions:act?workspace=acme&label.tier=gold', 'POST', body=chunk).json()
    assert (sent['refused'], sent['first_refusal']['code']) == (1, 'idempotency_key_reused'), sent
    for wrong in ({**order, 'signal': {'name': 'paid'}}, {**order, 'action': 'cancel'},
                  {key: order[key] for key in ('action', 'filter')}):
        assert listener.ask('/v1/bulk', 'POST', body=wrong).status == 400, wrong


def sql_takes_labels(weir):
    """On SQLite the test of the extension has the same."""
    if POSTGRES is None:
        return
    _pay(weir)
    labels = '{"tier": "gold", "site": "b"}'
    call = f"SELECT weir.enqueue('acme', 'pay', '{{}}'::jsonb, business_key => 'order-17', labels => '{labels}')"
    id = POSTGRES.sql(call, weir.database)
    many = json.dumps([{'workspace': 'acme', 'workflow': 'pay', 'business_key': 'order-18', 'labels': {'tier': 'tin'}},
                       {'workspace': 'acme', 'workflow': 'pay', 'labels': {'Tier': 'tin'}},
                       {'workspace': 'acme', 'workflow': 'pay', 'labels': ['tin']},
                       {'workspace': 'acme', 'workflow': 'pay', 'business_key': ''}])
    answer = POSTGRES.sql(f"SELECT string_agg(code, ' ' ORDER BY place) FROM weir.enqueue_many('{many}')", weir.database)
    assert answer == 'ok invalid_argument invalid_argument invalid_argument', answer
    assert weir.show(id)['labels'] == {'team': 'core', 'tier': 'gold', 'site': 'b'}
    assert _ids(weir, '-w', 'acme', '--where', 'business_key=order-17') == [id]
    found = POSTGRES.sql("SELECT business_key FROM weir.executions WHERE labels ->> 'tier' = 'tin'", weir.database)
    assert found == 'order-18', found
    weir.good('store', 'check')


def a_label_of_nothing_or_of_another_workspace_is_a_problem(weir):
    _pay(weir)
    weir.good('workspace', 'set', 'globex', '--plan', 'free', '-q')
    id = weir.enqueue('-w', 'acme', 'pay')
    lost = '00000000-0000-7000-8000-000000000000'
    table = 'execution_labels' if POSTGRES is None else 'weir.execution_labels'
    spaces = 'workspaces' if POSTGRES is None else 'weir.workspaces'
    for sql in (f"INSERT INTO {table} (execution_id, name, value, workspace_id) VALUES ('{lost}', 'tier', 'gold', 1)",
                f"INSERT INTO {table} (execution_id, name, value, workspace_id) SELECT '{id}', 'zone', 'a', id "
                f"FROM {spaces} WHERE name = 'globex'"):
        if POSTGRES is None:
            with contextlib.closing(sqlite3.connect(weir.path('weir.db'), isolation_level=None)) as store:
                store.execute(sql)
        else:
            POSTGRES.sql(sql, weir.database)
    problems = weir.run('store', 'check', '--json').json()['problems']
    assert len(problems) == 2, problems
    assert any(f'label tier of {lost} belongs to nothing' in problem for problem in problems), problems
    assert any(f'label zone of {id} is in another workspace' in problem for problem in problems), problems


def a_broken_key_of_a_broadcast_is_refused_at_once(weir):
    _pay(weir)
    listener = Listener(weir).ready()
    order = {'action': 'signal', 'filter': {'workspace': 'acme'}, 'signal': {'name': 'paid', 'key': ''}}
    for signal in ({'name': 'paid', 'key': ''}, {'name': '', 'key': 'k'}, {'name': 'paid', 'key': 'k' * 300}):
        assert listener.ask('/v1/bulk', 'POST', body={**order, 'signal': signal}).status == 400, signal


def a_repeated_broadcast_has_succeeded(weir):
    _pay(weir)
    weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-17')
    weir.enqueue('-w', 'acme', 'hello', '--business-key', 'order-17')  # waits for no signal
    order = ('signal', '-w', 'acme', '--where', 'business_key=order-17', 'paid', '--key', 'payment-1', '--json')
    sent = weir.good(*order).json()
    assert (sent['changed'], sent['refused']) == (1, 1), sent
    sent = weir.good(*order).json()
    assert (sent['changed'], sent['refused']) == (0, 1), sent
    assert weir.run(*order[:-1], '--data', '7').code != 0  # the same key for other data
    acts = weir.items('audit', '--act', 'signal')
    assert [act['after'] for act in acts] == [{'detail': 'paid'}], acts


def two_broadcasts_with_one_key_send_one_signal(weir):
    _pay(weir)
    ids = [weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-17') for _ in range(20)]
    order = ('signal', '-w', 'acme', '--where', 'business_key=order-17', 'paid', '--key', 'payment-1', '--json')
    both = [weir.spawn(*order, stdout=subprocess.PIPE) for _ in range(2)]
    answers = [json.loads(process.communicate()[0]) for process in both]
    assert sum(answer['changed'] for answer in answers) == len(ids), answers
    assert all(answer['refused'] == 0 for answer in answers), answers
    for id in ids:
        assert len(weir.show(id)['signals']) == 1


def a_server_gets_all_conditions_of_a_filter(weir):
    """A condition that a client leaves out would widen its act."""
    _pay(weir)
    weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-17', '--label', 'tier=gold')
    weir.enqueue('-w', 'acme', 'pay', '--business-key', 'order-18', '--label', 'tier=tin')
    url = f'http://127.0.0.1:{Listener(weir).ready().port}'
    conditions = ['business_key=order-17', 'business_key=order*', 'business_key_prefix=order-1', 'label.tier=gold',
                  'node=nobody', 'version=1', 'version=2', 'longer_than=1h', 'shorter_than=1h', 'error_text=nothing']
    for condition in conditions:
        words = ('list', '--where', f'workspace=acme {condition}', '--json')
        near = [item['id'] for item in weir.items(*words[:-1])]
        far = [item['id'] for item in weir.good(*words, env={'WEIR_STORE': url}).json()['items']]
        assert far == near, (condition, near, far)
        rehearsal = weir.good('cancel', '--where', f'workspace=acme {condition}', '--dry-run', '--json',
                              env={'WEIR_STORE': url}).json()
        assert rehearsal['matched'] == len(near), (condition, rehearsal, near)
    done = weir.good('cancel', '--where', 'workspace=acme label.tier=gold', '--json', env={'WEIR_STORE': url}).json()
    assert done['changed'] == 1, done
    weir.write('large.json', json.dumps('\\"' * 10000 + 'x' * 20000))
    words = ('signal', '-w', 'acme', '--where', 'business_key=order-18', 'paid', '--key', 'k', '--data', '@large.json')
    sent = weir.good(*words, '--json', env={'WEIR_STORE': url}).json()
    assert sent['changed'] == 1, sent


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
