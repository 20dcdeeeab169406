"""Lists of a store, and acts on executions."""

from datetime import datetime, timedelta, timezone

import pytest
from scene import wait_until

import weir
from weir import _served

DEFINITION = 'name: nap\nsteps:\n  only: {sleep: 10ms}\n'


@pytest.fixture
def store(tmp_path):
    with weir.Store(f'sqlite:{tmp_path}/weir.db') as opened:
        opened.migrate()
        opened.publish(DEFINITION)
        opened.set_workspace('acme', plan='pro')
        opened.set_workspace('globex')
        yield opened


def test_executions_come_newest_first_over_all_pages(store):
    ids = store.enqueue_many([weir.Request('acme', 'nap') for _ in range(120)])
    assert [row['id'] for row in store.executions(workspace='acme')] == sorted(ids, reverse=True)
    assert store.count(workspace='acme', states='pending') == 120
    assert store.count(workspace='globex') == 0


def test_conditions_choose(store):
    mine = store.enqueue('acme', 'nap', key='k')
    store.enqueue('globex', 'nap')
    assert [row['id'] for row in store.executions(key='k', workspace='acme')] == [mine]
    assert list(store.executions(states=['FAILED', 'COMPLETED'])) == []
    assert list(store.executions(created_before=datetime.now(timezone.utc) - timedelta(days=1))) == []
    with pytest.raises(ValueError, match='RUNNING'):
        store.count(states='RUNNING')
    with pytest.raises(TypeError):
        store.count(workspaces='acme')


def test_other_lists(store):
    id = store.enqueue('acme', 'nap')
    assert [event['event'] for event in store.events(id)] == ['enqueue']
    assert store.steps(id) == []
    assert {row['name'] for row in store.workspaces()} == {'acme', 'globex'}
    assert {'free', 'pro', 'enterprise'} <= {row['name'] for row in store.plans()}
    assert [row['name'] for row in store.workflows()] == ['nap']
    assert list(store.nodes()) == []


def test_usage(store):
    store.enqueue('acme', 'nap')
    usage = store.usage('acme')
    assert (usage['plan'], usage['pending'], usage['slots_used']) == ('pro', 1, 0)
    with pytest.raises(weir.NotFound):
        store.usage('nobody')


def test_a_cancelled_execution_is_retried_as_a_new_one(store):
    id = store.enqueue('acme', 'nap')
    with pytest.raises(weir.Error, match='PENDING'):
        store.retry(id)
    store.cancel(id)
    again = store.retry(id, 'it was a mistake')
    assert again != id
    assert store.show(again)['retry_of'] == id
    store.cancel(again)
    with pytest.raises(weir.Error, match='no such step'):
        store.retry(again, from_step='no-step')
    assert store.show(store.retry(again, keep_finished=True))['retry_of'] == again


def test_a_failed_execution_is_dismissed(store):
    id = store.enqueue('acme', 'nap')
    with pytest.raises(weir.Error, match='PENDING'):
        store.dismiss(id)
    store.delete_workspace('acme', fail_waiting=True)
    store.dismiss(id, 'known')
    assert [event['reason'] for event in store.events(id) if event['event'] == 'dismiss'] == ['known']


def test_what_does_not_wait_is_neither_decided_nor_woken(store):
    store.publish('{"name": "ask", "steps": {"ask": {"approve": {}}}}')
    id = store.enqueue('acme', 'ask')
    for decide in (store.approve, store.reject):
        with pytest.raises(weir.Error, match='no such step'):
            decide(id, 'ask', comment='no')
    with pytest.raises(weir.Error):
        store.wake(id)
    with pytest.raises(weir.Error, match='has version 1 already'):
        store.migrate_execution(id, 1)
    with pytest.raises(weir.Error, match='approval'):
        store.wake(id, waiting_for='approval')


def test_a_report_with_a_wrong_token_is_refused(store):
    for options in ({}, {'output': {'frames': 1}}, {'failed': 'disk_full', 'error': 'no room', 'final': True}):
        with pytest.raises(weir.Error) as refused:
            store.call_back('wrong', **options)
        assert refused.value.status == 'not_found'
    with pytest.raises(weir.Error) as refused:
        store.call_back('wrong', failed='x' * 65)
    assert refused.value.status == 'invalid_argument'


def test_a_signal_is_kept_for_a_step(store):
    store.publish('{"name": "ask", "steps": {"a": {"signal": "approved"}, "b": {"signal": "other"}}}')
    id = store.enqueue('acme', 'ask')
    assert store.signal(id, 'approved', {'by': 'eve'}, key='mail-7') == 1
    assert store.signal(id, 'approved', {'by': 'eve'}, key='mail-7') == 1
    with pytest.raises(weir.KeyReused, match='has other data'):
        store.signal(id, 'approved', {'by': 'bob'}, key='mail-7')
    assert store.signal(id, 'other', reason='to see it') == 2
    kept = [(row['name'], row['data']) for row in store.show(id)['signals']]
    assert kept == [('approved', {'by': 'eve'}), ('other', None)]
    with pytest.raises(weir.Error, match='waits for a signal "Other"'):
        store.signal(id, 'Other')
    store.cancel(id)
    with pytest.raises(weir.Error, match='has ended'):
        store.signal(id, 'other')


def test_release_starts_before_the_time(store):
    id = store.enqueue('acme', 'nap', run_at=datetime.now(timezone.utc) + timedelta(hours=1))
    assert store.why(id)['pending_reason'] == 'scheduled'
    store.release(id)
    assert store.why(id)['pending_reason'] != 'scheduled'


def test_executions_are_chosen_by_what_they_wait_for(store):
    @weir.workflow(name='nothing')
    def nothing(*, ctx):
        return None

    store.publish('name: long\nsteps:\n  only: {sleep: 1h}\n')
    id = store.enqueue('acme', 'long')
    assert store.count(waiting_for='sleep') == 0
    assert store.act('cancel', waiting_for='retry') == weir.Acted(0, 0, 0)
    with weir.Worker([nothing], store=store):
        wait_until(lambda: store.show(id)['status'] == 'WAITING', 'the park')
        assert [row['id'] for row in store.executions(waiting_for='sleep')] == [id]
        assert store.act('cancel', waiting_for='sleep') == weir.Acted(1, 1, 0)


def test_failures_are_grouped_until_they_are_dealt_with(store):
    @weir.workflow(name='poor')
    def poor(*, ctx):
        raise weir.Fail('no_money', 'the card is empty')

    with weir.Worker([poor], store=store):
        ids = [store.enqueue(name, 'poor') for name in ('acme', 'acme', 'globex')]
        for id in ids:
            store.wait(id, 60)
    found = [(row['error_code'], row['workflow'], row['workspace'], row['count']) for row in store.failures()]
    assert found == [('no_money', 'poor', 'acme', 2), ('no_money', 'poor', 'globex', 1)]
    assert store.act('dismiss', workspace='acme', error_code='no_money') == weir.Acted(2, 2, 0)
    assert [row['workspace'] for row in store.failures()] == ['globex']
    assert store.failures(workspace='acme') == []
    with pytest.raises(TypeError):
        store.failures(key_mode='once')


def test_an_act_on_many(store):
    store.enqueue_many([weir.Request('acme', 'nap') for _ in range(700)])
    other = store.enqueue('globex', 'nap')
    assert store.act('cancel', workspace='acme', because='tests') == weir.Acted(700, 700, 0)
    assert store.act('purge', states=['CANCELLED', 'PENDING']) == weir.Acted(701, 700, 1)
    assert [row['id'] for row in store.executions()] == [other]
    with pytest.raises(weir.Error, match='no condition'):
        store.act('cancel')
    with pytest.raises(ValueError, match='delete'):
        store.act('delete', workspace='acme')


def test_executions_are_found_by_labels_and_business_keys(store):
    gold = store.enqueue('acme', 'nap', business_key='order-17', labels={'tier': 'gold', 'zone': 'a'})
    tin = store.enqueue('acme', 'nap', business_key='order-18', labels={'tier': 'tin'})
    assert [row['id'] for row in store.executions(workspace='acme', labels={'tier': 'gold', 'zone': 'a'})] == [gold]
    assert [row['id'] for row in store.executions(business_key='order-18')] == [tin]
    assert store.count(business_key='order-1') == 0
    assert store.count(business_key_prefix='order-1') == 2
    assert store.act('cancel', labels={'tier': 'tin'}) == weir.Acted(1, 1, 0)
    with pytest.raises(weir.Error, match='label 1'):
        store.count(labels={'Tier': 'gold'})
    with pytest.raises(weir.Error, match='one beginning'):
        store.count(business_key='a', business_key_prefix='b')


def test_a_key_has_a_mode(store):
    first = store.enqueue('acme', 'nap', {'n': 1}, key='m', key_mode='debounce', debounce='1h', debounce_max='2h')
    second = store.enqueue('acme', 'nap', {'n': 2}, key='m', key_mode='replace')
    (third,) = store.enqueue_many([weir.Request('acme', 'nap', {'n': 3}, key='m', key_mode='one_active')])
    assert (store.show(first)['status'], third) == ('CANCELLED', second)
    for wrong in ({'key_mode': 'newest', 'key': 'm'}, {'key_mode': 'replace'}, {'key': 'm', 'debounce': 5}):
        with pytest.raises(weir.Misuse if wrong.get('key_mode') == 'newest' else weir.Error):
            store.enqueue('acme', 'nap', **wrong)


def test_a_workspace_is_deleted(store):
    first = store.enqueue('acme', 'nap')
    with pytest.raises(weir.Error) as refused:
        store.delete_workspace('acme')
    assert refused.value.status == 'illegal_state'
    assert store.delete_workspace('acme', fail_waiting=True, reason='left us') == (1, 0)
    assert store.show(first)['error_code'] == 'workspace_deleted'
    with pytest.raises(weir.NotFound):
        store.enqueue('acme', 'nap')
    assert store.delete_workspace('acme', erase=True) == (0, 1)
    with pytest.raises(weir.NotFound):
        store.show(first)


def test_a_workspace_is_renamed(store):
    first = store.enqueue('acme', 'nap', key='order-1')
    with pytest.raises(weir.NotFound):
        store.rename_workspace('acm', 'x')
    store.rename_workspace('acme', 'acme-eu', reason='moved')
    assert store.show(first)['workspace'] == 'acme-eu'
    with pytest.raises(weir.WorkspaceNotFound) as refused:
        store.enqueue('acme', 'nap')
    assert refused.value.hint == 'the workspace was renamed to "acme-eu"'
    assert store.enqueue('acme-eu', 'nap', key='order-1') == first


def test_a_full_workspace_refuses_an_enqueue(store):
    store.set_plan_max_pending('pro', 2)
    store.set_workspace('acme', plan='pro')
    store.set_max_pending('acme', 1)
    store.enqueue('acme', 'nap')
    with pytest.raises(weir.QueueFull) as refused:
        store.enqueue('acme', 'nap')
    assert (refused.value.status, refused.value.kind.name) == ('queue_full', 'AT_CAPACITY')
    store.set_max_pending('acme', None)
    store.enqueue('acme', 'nap')
    with pytest.raises(weir.QueueFull):
        store.enqueue('acme', 'nap')
    store.set_max_pending('acme', 0)
    store.enqueue('acme', 'nap')
    with pytest.raises(weir.NotFound):
        store.set_max_pending('acmee', 1)


def test_a_workflow_is_disabled_and_deleted(store):
    store.disable_workflow('nap')
    with pytest.raises(weir.Error) as refused:
        store.enqueue('acme', 'nap')
    assert refused.value.status == 'workflow_disabled'
    store.enable_workflow('nap')
    id = store.enqueue('acme', 'nap')
    with pytest.raises(weir.Error) as refused:
        store.delete_workflow('nap')
    assert refused.value.status == 'illegal_state'
    store.cancel(id)
    store.delete_workflow('nap')
    with pytest.raises(weir.NotFound):
        store.enqueue('acme', 'nap')


own = weir.Registry()


@weir.workflow(name='served-late', register=own)
def served_late():
    return None


@pytest.fixture
def asks_often(monkeypatch):
    """Each enqueue asks whether a worker has the workflow, and no test has asked before."""
    monkeypatch.setattr(_served, 'CHECK_EACH_SECONDS', 0.0)
    monkeypatch.setattr(_served, '_next_check', {})


def _warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == 'WARNING']


@pytest.mark.usefixtures('asks_often')
def test_an_enqueue_that_no_worker_serves_warns_once(store, caplog):
    first = served_late.enqueue('acme', store=store)
    served_late.enqueue('acme', store=store)
    store.enqueue_many([weir.Request('acme', 'served-late'), weir.Request('acme', 'nap'), weir.Request('acme', 'nap')])
    late, nap = _warnings(caplog)
    assert late == (
        f'workflow served-late: no live worker of the group default has the handler served-late: execution {first} waits '
        'for one; start it with: weir worker APP'
    )
    assert nap.startswith('workflow nap: no live node serves the group default: execution ')


@pytest.mark.usefixtures('asks_often')
def test_an_enqueue_that_a_worker_serves_does_not_warn(store, caplog):
    with weir.Worker([served_late], store=store):
        wait_until(lambda: list(store.nodes()))
        store.result(served_late.enqueue('acme', store=store), '60s')
    assert _warnings(caplog) == []


def test_the_store_is_asked_once_a_minute(store, monkeypatch):
    monkeypatch.setattr(_served, '_next_check', {})
    asked = []
    for _ in range(3):
        _served.watch((store.url, 'nap', None), lambda: asked.append(1) or '{}')
    assert len(asked) == 1
    monkeypatch.setattr(_served.time, 'monotonic', lambda at=_served.time.monotonic(): at + 61)  # noqa: B008
    _served.watch((store.url, 'nap', None), lambda: asked.append(1) or '{}')
    assert len(asked) == 2


def test_a_store_that_does_not_answer_fails_no_enqueue(monkeypatch, caplog):
    monkeypatch.setattr(_served, '_next_check', {})

    def refuse():
        raise weir.StoreUnavailable('away')

    _served.watch(('sqlite:a', 'nap', None), refuse)
    assert _warnings(caplog) == []
