"""The examples of docs/python.md, as they are printed there. The names that they take from the program of the reader are
made here. test_quickstart.py and test_django.py run those of Django."""

import importlib
import json
import re
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone

import pytest
from conftest import SOURCE

import weir
from weir import _workflow

GUIDE = (SOURCE / 'docs' / 'python.md').read_text()


def blocks(heading):
    """The examples in Python below the heading."""
    section = re.split(r'^## ', GUIDE.split(f'\n## {heading}\n')[1], flags=re.MULTILINE)[0]
    return re.findall(r'```python\n(.*?)```', section, re.DOTALL)


FIRST = blocks('How do I run a function for a customer?')
OWN_NAMES = """
def bank_is_busy():
    return False
"""
OWN_SHOP = """
from tasks import send_invoice


def place_order(order):
    send_invoice.enqueue('acme', order=order)

"""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """The guide has names that other tests have as well."""
    monkeypatch.setattr(_workflow.registry, 'workflows', {})


@pytest.fixture
def tasks(tmp_path, monkeypatch, weir_store):
    """The first module of the guide, imported from a file of its own."""
    weir_store.set_plan('pro', max_concurrent=5)
    weir_store.set_workspace('acme', plan='pro')
    (tmp_path / 'guide_tasks.py').write_text(FIRST[0] + OWN_NAMES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, 'guide_tasks', raising=False)
    return importlib.import_module('guide_tasks')


def run(text, names):
    exec(compile(text, 'docs/python.md', 'exec'), names)
    return names


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_every_example_is_run_by_a_test():
    headings = re.findall(r'^## (.*)$', GUIDE, re.MULTILINE)
    counts = {heading: len(blocks(heading)) for heading in headings if blocks(heading)}
    assert counts == {
        'How do I run a function for a customer?': 2,
        'How do I use it with Django?': 1,
        'States': 1,
        'How do I enqueue many, wait, and look?': 1,
        'How do I find executions, and act on them?': 1,
        'How do I define a workflow of several steps?': 1,
        'How do I run the worker in production?': 1,
        'How do I test?': 1,
    }


def test_the_first_function_runs(tasks, weir_store):
    with weir.Worker([tasks.send_invoice], store=weir_store):
        names = run(FIRST[1], {'weir': weir, 'send_invoice': tasks.send_invoice})
    assert weir_store.result(names['id']) == {'sent': 42, 'for': 'acme'}


def test_the_class_goes_through_its_states(weir_store):
    weir_store.set_workspace('acme')
    (text,) = blocks('States')
    define, use = text.split('\n\n\nid = ')
    names = run(define, {})
    mail = weir.workflow(name='send-mail')(lambda text: None)
    with weir.Worker([names['Credit'], mail], store=weir_store, grace=5):
        enqueue, update = use.splitlines()
        run(f'id = {enqueue}', names)
        until(lambda: weir_store.count(waiting_for='manual') == 1)
        run(update, names)
        assert weir_store.result(names['id'], 60) == {'limit': 5000}
        until(lambda: weir_store.count(workflow='send-mail', states='COMPLETED') == 1)


def test_many_are_enqueued_and_watched(tasks, weir_store):
    (text,) = blocks('How do I enqueue many, wait, and look?')
    with weir.Worker([tasks.send_invoice], store=weir_store):
        id = tasks.send_invoice.enqueue('acme', order=1)
        weir_store.wait(id, 60)
        lines, cancel = text.rstrip().rsplit('\n', 1)
        names = run(lines, {'weir': weir, 'send_invoice': tasks.send_invoice, 'orders': [8, 9], 'id': id})
        until(lambda: weir_store.count(states='COMPLETED') == 3)
        (late,) = (row['id'] for row in weir_store.executions(states='PENDING'))
        assert weir_store.why(late)['pending_reason'] == 'scheduled'
        run(cancel, {**names, 'id': late})
        assert weir_store.show(late)['status'] == 'CANCELLED'


def act_lines():
    (text,) = blocks('How do I find executions, and act on them?')
    return re.sub(r'^for .*\n +.*\n', '', text, flags=re.MULTILINE).splitlines()[1:]


ACT_WORKFLOWS = {
    'nap': '{"sleep": "1h"}',
    'ask': '{"approve": {}}',
    'mail': '{"signal": "approved"}',
}


def prepare(store, call):
    """The id of an execution that the call can act on, in a state that it needs."""
    if call == 'release':
        return store.enqueue('acme', 'nap', run_at=datetime.now(timezone.utc) + timedelta(hours=1))
    kind = {'approve': 'ask', 'signal': 'mail'}.get(call, 'nap')
    id = store.enqueue('acme', kind)
    until(lambda: store.show(id)['status'] == 'WAITING')
    if call == 'retry':
        store.cancel(id)
    if call == 'migrate_execution':
        for hours in (2, 3):
            store.publish(json.dumps({'name': 'nap', 'timeout': f'{hours}h', 'steps': {'one': {'sleep': '1h'}}}))
    return id


@pytest.mark.parametrize('line', act_lines(), ids=lambda line: re.sub(r' *#.*', '', line))
def test_each_act_works(tasks, weir_store, line):
    for name, step in ACT_WORKFLOWS.items():
        weir_store.publish(json.dumps({'name': name, 'steps': {'one': json.loads(step)}}))
    tasks.send_invoice.publish(weir_store)
    with weir.Worker([weir.workflow(name='idle')(lambda: None)], store=weir_store, grace=5):
        call = re.match(r'store\.(\w+)\(', line)[1]
        run(line, {'store': weir_store, 'id': prepare(weir_store, call)})


def refuse():
    raise weir.Fail('no_money')


def test_failed_executions_are_printed(weir_store, capsys):
    (text,) = blocks('How do I find executions, and act on them?')
    weir_store.set_workspace('acme')
    refused = weir.workflow(name='refused')(refuse)
    with weir.Worker([refused], store=weir_store):
        weir_store.wait(refused.enqueue('acme'), 60)
    run('\n'.join(text.splitlines()[:4]), {'weir': weir})
    assert 'no_money' in capsys.readouterr().out


def test_the_definition_is_published(weir_store):
    (text,) = blocks('How do I define a workflow of several steps?')
    named = ('book_hotel', 'cancel_hotel', 'tell_support')
    names = run(text, {name: weir.workflow(name=name.replace('_', '-'))(lambda: None) for name in named})
    assert names['trip'].publish(weir_store) == 1


def test_a_worker_lives_within_its_block(weir_store):
    (text,) = blocks('How do I run the worker in production?')
    here = weir.workflow(name='here')(lambda: 1)
    served = []

    def serve_forever():
        weir_store.set_workspace('acme')
        served.append(weir_store.result(here.enqueue('acme'), 60))

    run(text, {'weir': weir, 'serve_forever': serve_forever})
    assert served == [1]


def test_the_tests_pass(tmp_path):
    (text,) = blocks('How do I test?')
    (tmp_path / 'tasks.py').write_text(FIRST[0] + OWN_NAMES)
    (tmp_path / 'test_shop.py').write_text(OWN_SHOP + text)
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', 'test_shop.py'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert '2 passed' in done.stdout, done.stdout + done.stderr
