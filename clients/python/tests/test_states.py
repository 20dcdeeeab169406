"""Classes with states in a real worker on a real store."""

import importlib.util
import os
import pathlib

import pytest
from scene import wait_until

import weir

seen = []


@weir.workflow(name='part')
def part(number: int):
    return number * 2


@weir.states(
    'credit',
    on_error='problem',
    variables={'amount': 'integer', 'limit': {'type': 'integer', 'initial': 0}, 'note': 'string', 'parts': 'array'},
    signals=['documents'],
)
class Credit:
    @weir.state(next=['ask', 'reject'])
    def create(self, ctx):
        ctx.variables['amount'] = ctx.params['amount']
        with pytest.raises(weir.Error):
            ctx.variables['other'] = 1
        with pytest.raises(weir.Error):
            ctx.variables['amount'] = 'much'
        seen.append((ctx.state, dict(ctx.variables), ctx.signal, ctx.failure, len(ctx.variables)))
        return 'reject' if ctx.params['amount'] > 1000 else 'ask'

    @weir.state()
    def ask(self, ctx):
        return weir.Wait('documents', 'review')

    @weir.state()
    def review(self, ctx):
        seen.append(ctx.signal)
        with pytest.raises(weir.Error, match='1 to 255 bytes'):
            ctx.start('part', key='', number=1)
        ctx.start('part', key='part-1', number=1)
        ctx.start(part, key='part-2', number=2)
        return weir.WaitChildren('count')

    @weir.state()
    async def count(self, ctx):
        ctx.variables['parts'] = [child['output'] for child in ctx.signal['output']]
        return weir.Next('preview')

    preview = weir.manual(next=['accept'])

    @weir.state(retry={'attempts': 2, 'backoff': '1ms'}, on_failure='problem')
    def accept(self, ctx):
        raise ValueError(f'limit {ctx.variables["limit"]}')

    problem = weir.manual()

    @weir.state()
    def close(self, ctx):
        seen.append(ctx.failure)
        return weir.Done({'closed': ctx.variables['limit']})

    @weir.state()
    def reject(self):
        return 'done'

    done = weir.end()


@weir.states('silent')
class Silent:
    @weir.state()
    def first(self):
        return None


class _Base:
    @weir.state()
    def first(self):
        return 'odd'


@weir.states('derived')
class Derived(_Base):
    @weir.state(retry={'attempts': 1})
    async def odd(self):
        return weir.Next(3)


@weir.states('recovered')
class Recovered:
    @weir.state(retry={'attempts': 1}, on_failure='ask')
    def pay(self):
        raise ValueError('no money')

    @weir.state()
    def ask(self, ctx):
        return 'rejected' if ctx.params.get('at_once') else 'settle'

    @weir.state()
    def settle(self):
        return 'rejected'

    rejected = weir.error_end()


@weir.states('restless')
class Restless:
    @weir.state()
    def round(self):
        return weir.Next(after=0.000001)


def _waits(store, id, kind):
    return wait_until(lambda: (shown := store.show(id))['waiting_for'] == kind and shown, f'the wait {kind}')


@pytest.fixture(autouse=True)
def fresh(weir_store):
    weir_store.set_workspace('acme', plan='pro')
    seen.clear()


def test_a_class_goes_through_its_states(weir_store, weir_worker):
    store = weir_store
    id = Credit.enqueue('acme', amount=7)
    _waits(store, id, 'signal')
    assert seen == [('create', {'amount': 7, 'limit': 0}, None, None, 2)]
    store.signal(id, 'documents', {'by': 'eve'})
    shown = _waits(store, id, 'manual')
    assert seen[1] == {'by': 'eve'}
    assert shown['state'] == 'preview'
    assert shown['variables'] == {'amount': 7, 'limit': 0, 'parts': [2, 4]}
    with pytest.raises(weir.Error):
        store.update(id, 'nowhere')
    with pytest.raises(weir.Error) as refused:
        store.update(id, 'accept', if_state='create')
    assert refused.value.status == 'conflict'
    assert store.update(id, 'accept', variables={'limit': 5}, reason='by phone', if_state='preview') > 0
    wait_until(lambda: store.show(id)['state'] == 'problem', 'the problem')
    _waits(store, id, 'manual')
    store.update(id, 'close')
    assert store.result(id, 60) == {'closed': 5}
    assert seen[2] == weir.Failure('accept', 'value_error', 'ValueError: limit 5')
    outcomes = [row['outcome'] for row in store.show(id)['actions']]
    assert outcomes == ['next', 'wait', 'wait', 'next', 'update', 'retry', 'failed', 'update', 'done'], outcomes
    # a known key enqueues nothing: it names the child
    assert store.show(part.enqueue('acme', key='part-2', number=2))['parent']['id'] == id


def test_an_end_state_gives_the_variables(weir_store, weir_worker):
    id = Credit.enqueue('acme', amount=5000)
    assert weir_store.result(id, 60) == {'amount': 5000, 'limit': 0}


def test_a_method_without_an_answer_fails(weir_store, weir_worker):
    id = Silent.enqueue('acme')
    with pytest.raises(weir.ExecutionFailed) as raised:
        weir_store.result(id, 60)
    assert raised.value.code == 'state_no_answer'


def test_an_answer_that_names_no_state_fails(weir_store, weir_worker):
    """Also of a coroutine, whose call would be open for ever; it comes behind a state of a base class."""
    with pytest.raises(weir.ExecutionFailed) as raised:
        weir_store.result(Derived.enqueue('acme'), 60)
    assert raised.value.code == 'state_no_answer'


def test_a_failure_that_was_dealt_with_is_not_the_end(weir_store, weir_worker):
    with pytest.raises(weir.ExecutionFailed) as raised:
        weir_store.result(Recovered.enqueue('acme'), 60)
    assert raised.value.code == 'error_state'
    with pytest.raises(weir.ExecutionFailed) as raised:
        weir_store.result(Recovered.enqueue('acme', at_once=True), 60)
    assert raised.value.code == 'value_error'


def test_short_delays_do_not_fill_the_store(weir_store, weir_worker):
    id = Restless.enqueue('acme')
    shown = _waits(weir_store, id, 'sleep')
    assert shown['earlier_actions'] + len(shown['actions']) == 100


def test_the_example_runs(weir_store):
    source = pathlib.Path(os.environ.get('WEIR_SOURCE', pathlib.Path(__file__).resolve().parents[3]))
    path = source / 'examples' / 'credit_application.py'
    spec = importlib.util.spec_from_file_location('credit_application', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with weir.Worker([module.CreditApplication], store=weir_store, grace=5):
        id = module.CreditApplication.enqueue('acme', amount=4000)
        _waits(weir_store, id, 'manual')
        weir_store.update(id, 'accept', variables={'limit': 5000})
        assert weir_store.result(id, 60) == {'granted': 5000}


def test_a_class_without_states_is_refused():
    with pytest.raises(weir.DefinitionError):

        @weir.states('empty')
        class Empty:
            pass


def _second(**options):
    @weir.states('credit', **options)
    class Second:
        @weir.state()
        def create(self):
            return weir.Done()

    return Second


def test_a_class_is_known_by_its_file():
    assert Credit.place.startswith(__file__ + ':')
    with pytest.raises(weir.DefinitionError, match='two workflows are named'):
        _second()


def test_two_handlers_of_one_name_are_refused(weir_store):
    registry = weir.Registry()
    function = weir.workflow(name='credit-create', register=registry)(lambda: 1)
    with pytest.raises(weir.DefinitionError, match="two handlers are named 'credit-create'"):
        weir.Worker([function, _second(register=registry)], store=weir_store)


def test_classes_that_leave_a_question_are_refused():
    with pytest.raises(weir.DefinitionError, match='2 initial states'):

        @weir.states('twice')
        class Twice:
            one = weir.manual(initial=True)

            @weir.state(initial=True)
            def two(self):
                return 'one'

    with pytest.raises(weir.DefinitionError, match="'first' is a state of a base class and none in Hidden"):

        @weir.states('hidden')
        class Hidden(_Base):
            def first(self):
                return 'other'


def test_a_server_gives_no_states_away():
    worker = weir.Worker([Credit], store=weir.Store('http://127.0.0.1:9'))
    with pytest.raises(weir.DefinitionError, match='has states, and a server gives none away'):
        worker.start()
