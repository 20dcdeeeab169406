"""Definitions that are written in Python are what the store publishes and runs."""

import datetime
import importlib.util
import os
import pathlib
import threading

import pytest

import weir
from weir import define


def whole():
    """Each kind of step, and each option, once."""
    made = define.Definition('trip', timeout=3600, labels={'team': 'core'}, hold_slot=False, starts_max=2)
    made.step(
        'hotel',
        define.handler('book', input={'guest': '${.input.guest}'}),
        undo=define.handler('cancel-book').with_options(timeout='5s', retry={'attempts': 3, 'backoff': 0.5}),
        retry={'attempts': 2, 'backoff': datetime.timedelta(seconds=1), 'not_on': ['full']},
        timeout='10s',
    )
    made.step('greet', define.execute('echo', 'hello', env={'A': 'b'}), continue_on_error=True)
    made.step('nap', define.sleep('1ms'), needs='hotel')
    made.step('until', define.sleep(until='2020-01-01T00:00:00Z'), needs=['nap'])
    made.step('later', define.sleep('${.input.delay}'), needs=['nap'])
    made.step('paid', define.signal('paid', timeout='2d', default=None), needs=['hotel', 'greet'], hold_slot=True)
    made.step('ask', define.approve(by=['token:ops'], prompt='Pay?', timeout='3d', default='reject', on_reject='fail'))
    made.step('child', define.start('hello', {'n': '${.item}'}, for_each='${.input.list}', max_parallel=2, wait='any'))
    made.step('keyed', define.start('hello', key='import-${.input.day}'))
    made.step(
        'call',
        define.http(
            'https://pay.example.com/x',
            method='PUT',
            headers={'X-A': 'b'},
            body={'a': 1},
            expect=[200, 404],
            redirects=1,
            bearer='token',
            sign='key',
            callback='2h',
        ),
        when='${.input.pays}',
        secrets={'X-Api-Key': 'stripe-key'},
    )
    made.on_failure('tell', define.handler('tell'))
    made.end('clean', define.execute('true'), timeout='1s')
    made.schedule(
        'nightly',
        cron='30 4 * * *',
        zone='Europe/Berlin',
        plan='pro',
        params={'deep': True},
        overlap='queue_one',
        jitter=60,
        catch_up='2h',
        from_='2040-01-01T00:00:00Z',
        until='2041-01-01T00:00:00Z',
    )
    made.schedule('often', every='1h', plan='pro')
    return made


def test_every_key_is_accepted_by_the_store(weir_store):
    weir_store.publish('{"name": "hello", "steps": {"one": {"sleep": "1ms"}}}')
    made = whole()
    assert made.publish(weir_store) == 1
    assert made.publish(weir_store) == 1
    (listed,) = [row for row in weir_store.workflows() if row['name'] == 'trip']
    assert listed['version'] == 1


def test_the_definition_has_the_keys_of_the_documents():
    made = whole().as_dict()
    assert made['steps']['hotel'] == {
        'handler': 'book',
        'input': {'guest': '${.input.guest}'},
        'undo': {'handler': 'cancel-book', 'timeout': '5s', 'retry': {'attempts': 3, 'backoff': '500ms'}},
        'retry': {'attempts': 2, 'backoff': '1000ms', 'not_on': ['full']},
        'timeout': '10s',
    }
    assert made['steps']['paid'] == {
        'signal': {'name': 'paid', 'timeout': '2d', 'default': None},
        'needs': ['hotel', 'greet'],
        'hold_slot': True,
    }
    assert made['steps']['later']['sleep'] == {'for': '${.input.delay}'}
    assert made['steps']['call']['http']['callback'] == '2h'
    assert list(made['on_failure']) == ['tell']
    assert list(made['finally']) == ['clean']
    assert made['schedules']['often'] == {'every': '1h', 'plan': 'pro'}
    assert (made['schedules']['nightly']['jitter'], made['schedules']['nightly']['from'][:4]) == ('60000ms', '2040')
    assert made['timeout'] == '3600000ms'
    assert made['labels'] == {'team': 'core'}


def test_a_failure_is_undone_by_functions(weir_store):
    calls = []
    ended = threading.Event()
    registry = weir.Registry()

    @weir.workflow(name='book-room', register=registry)
    def book_room(guest: str):
        calls.append('book')
        return 'room 7'

    @weir.workflow(name='pay-room', register=registry)
    def pay_room(guest: str):
        raise weir.Fail('no_money')

    @weir.workflow(name='free-room', register=registry)
    def free_room(guest: str):
        calls.append('free')
        ended.set()

    made = define.Definition('stay')
    made.step('room', define.handler(book_room), undo=define.handler(free_room))
    made.step('pay', define.handler(pay_room), needs=['room'])
    weir_store.set_workspace('acme')
    made.publish(weir_store)
    id = weir_store.enqueue('acme', 'stay', {'guest': 'ada'})
    with weir.Worker(registry.workflows.values(), store=weir_store), pytest.raises(weir.ExecutionFailed) as failed:
        weir_store.result(id, 20)
    assert failed.value.code == 'no_money'
    assert calls == ['book', 'free']
    assert ended.is_set()


def test_the_example_of_bulk_work_runs(weir_store):
    weir_store.set_workspace('acme', max_concurrent=1)  # the parent uses no slot while its children run
    source = pathlib.Path(os.environ.get('WEIR_SOURCE', pathlib.Path(__file__).resolve().parents[3]))
    spec = importlib.util.spec_from_file_location('bulk', source / 'examples' / 'bulk.py')
    bulk = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bulk)
    bulk.everything.publish(weir_store)
    with weir.Worker([bulk.split, bulk.work, bulk.add_up], store=weir_store, grace=5):
        id = weir_store.enqueue('acme', 'bulk-py')
        assert weir_store.result(id, 60) == {'total': 385}
    (each,) = weir_store.show(id)['children']
    assert (each['count'], each['completed']) == (10, 10), each


def test_mistakes_name_the_place():
    made = define.Definition('wrong')
    made.step('one', define.sleep(1))
    with pytest.raises(weir.DefinitionError, match=r"test_define.py:\d+: wrong has two steps 'one'"):
        made.end('one', define.sleep(1))
    with pytest.raises(weir.DefinitionError, match=r"test_define.py:\d+: the step 'two': a step has no option 'retries'"):
        made.step('two', define.sleep(1), retries=3)
    with pytest.raises(weir.DefinitionError, match=r"test_define.py:\d+: the step 'two' has no kind"):
        made.step('two', {'sleep': '1s'})
    with pytest.raises(ValueError, match='either a duration or until'):
        define.sleep()


def test_a_definition_that_the_store_refuses_names_this_file(weir_store):
    made = define.Definition('circle')
    made.step('one', define.sleep(1), needs=['two']).step('two', define.sleep(1), needs=['one'])
    with pytest.raises(weir.Error, match='test_define.py'):
        made.publish(weir_store)
