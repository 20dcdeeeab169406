"""Enqueue inside the caller's own transaction on SQLite, by the loadable extension of the package."""

import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import textwrap
import threading
from datetime import datetime, timezone

import pytest

import weir
from weir import _sqlite

PACKAGES = str(pathlib.Path(weir.__file__).parent.parent)


@weir.workflow(name='ship-on-sqlite')
def ship(order: int):
    return order


@pytest.fixture
def store(weir_store):
    if not _sqlite.can_load_extensions():
        weir.add_functions_to_new_connections()
    weir_store.set_workspace('acme')
    ship.publish(weir_store)
    return weir_store


@pytest.fixture
def connection(store):
    connection = sqlite3.connect(store.url.split(':', 1)[1])
    connection.execute('CREATE TABLE orders (number INTEGER)')
    yield connection
    connection.close()


def exists(store, id):
    try:
        return store.show(id)['workspace'] == 'acme'
    except weir.ExecutionNotFound:
        return False


def test_a_key_has_a_mode(store, connection):
    with connection:
        first = ship.enqueue('acme', order=1, key='m', key_mode='debounce', debounce='1h', using=connection)
        second = ship.enqueue('acme', order=2, key='m', key_mode='replace', using=connection)
    assert [store.show(id)['status'] for id in (first, second)] == ['CANCELLED', 'PENDING']


def test_a_worker_ends_its_own_run_and_no_other(store, connection):
    """A run on record, as a node on Temporal writes it."""
    definition = {'name': 'outside', 'temporal': {'task_queue': 'q'}}
    store.publish(json.dumps(definition))
    id = store.enqueue('acme', 'outside')
    with pytest.raises(weir.Error) as problem:
        store.complete(id, 'own')
    assert problem.value.status == 'illegal_state'  # it has not been started
    with connection:
        connection.execute(
            "UPDATE workflow_execution_queue SET status = 'DISPATCHED', phase = 2, fence = 7, claimed_at = created_at,"
            ' dispatched_at = created_at WHERE id = ?',
            (id,),
        )
        connection.execute(
            'INSERT INTO workflow_node_executions (execution_id, step, status, attempt, failures, started_at, node_id,'
            " fence, variables) VALUES (?, 'workflow', 'RUNNING', 1, 0, 1, 1, 7, ?)",
            (id, json.dumps({'run_id': 'own'}).encode()),
        )
    for run, fence in (('another', 0), ('own', 8)):
        with pytest.raises(weir.Error) as problem:
            store.complete(id, run, result=1, fence=fence)
        assert problem.value.status == 'conflict'
    store.complete(id, 'own', result={'n': 7}, fence=7)
    assert store.result(id) == {'n': 7}


def test_an_enqueue_takes_part_in_the_transaction(store, connection):
    connection.execute('INSERT INTO orders VALUES (1)')
    id = ship.enqueue('acme', order=1, key='a', using=connection)
    assert not exists(store, id)
    connection.commit()
    assert exists(store, id)
    assert ship.enqueue('acme', order=1, key='a', using=connection.cursor()) == id
    connection.rollback()
    connection.execute('INSERT INTO orders VALUES (2)')
    other = ship.enqueue('acme', order=2, using=connection)
    connection.rollback()
    assert not exists(store, other)
    assert connection.execute('SELECT count(*) FROM orders').fetchone()[0] == 1


def test_an_enqueue_begins_the_transaction_as_an_insert_does(store, connection):
    id = ship.enqueue('acme', order=1, using=connection)
    assert connection.in_transaction
    connection.rollback()
    assert not exists(store, id)
    connection.isolation_level = None  # the caller begins transactions itself, so this one is its own
    assert exists(store, ship.enqueue('acme', order=1, using=connection))


def test_a_refusal_leaves_the_transaction_as_it_was(store, connection):
    with pytest.raises(weir.WorkspaceNotFound) as caught:
        ship.enqueue('acmee', order=1, using=connection)
    assert caught.value.hint == 'did you mean "acme"?'
    assert not connection.in_transaction
    connection.execute('INSERT INTO orders VALUES (3)')
    with pytest.raises(weir.WorkspaceNotFound):
        ship.enqueue('nobody', order=1, using=connection)
    id = ship.enqueue('acme', order=3, using=connection)
    connection.commit()
    assert exists(store, id)


def test_options_reach_the_execution(store, connection):
    at = datetime(2033, 5, 18, 3, 33, 20, 250_000, tzinfo=timezone.utc)
    id = ship.enqueue('acme', order=1, priority=7, run_at=at, key='k', using=connection)
    connection.commit()
    shown = store.show(id)
    assert (shown['priority'], shown['idempotency_key'], shown['params']) == (7, 'k', {'order': 1})
    assert shown['run_at'].startswith('2033-05-18T03:33:20.25')
    with pytest.raises(ValueError, match='time zone'):
        ship.enqueue('acme', order=1, run_at=datetime(2033, 1, 1), using=connection)


def test_labels_and_business_keys_take_part_in_a_transaction(store, connection):
    id = ship.enqueue('acme', order=1, using=connection, business_key='order-17', labels={'tier': 'gold'})
    connection.commit()
    shown = store.show(id)
    assert (shown['business_key'], shown['labels']) == ('order-17', {'tier': 'gold'})


def test_a_locked_file_is_reported_as_busy(store, connection):
    connection.execute('INSERT INTO orders VALUES (1)')  # holds the lock
    other = sqlite3.connect(store.url.split(':', 1)[1], timeout=0)
    with pytest.raises(weir.StoreUnavailable) as caught:
        ship.enqueue('acme', order=1, using=other)
    assert caught.value.status == 'store_busy'
    other.close()


def test_a_deferred_transaction_waits_for_other_writers(store, connection):
    """The commit of the other writer comes while the enqueue waits for the lock, after a snapshot would have been taken."""
    other = sqlite3.connect(store.url.split(':', 1)[1], timeout=30, isolation_level=None)
    waiting = threading.Event()
    other.set_trace_callback(lambda sql: waiting.set() if sql.startswith('DELETE') else None)

    opened = sqlite3.connect(store.url.split(':', 1)[1], check_same_thread=False)
    opened.execute('BEGIN IMMEDIATE')
    opened.execute('INSERT INTO orders VALUES (1)')
    committer = threading.Thread(target=lambda: (waiting.wait(30), opened.commit()))
    committer.start()
    other.execute('BEGIN')
    id = ship.enqueue('acme', order=1, using=other)
    committer.join()
    other.execute('COMMIT')
    assert exists(store, id)
    other.close()
    opened.close()


def test_sqlalchemy(store):
    sqlalchemy = pytest.importorskip('sqlalchemy')
    engine = sqlalchemy.create_engine(f'sqlite:///{store.url.split(":", 1)[1]}')
    with engine.connect() as connection:
        id = ship.enqueue('acme', order=1, using=connection)
        connection.rollback()
        assert not exists(store, id)
        id = ship.enqueue('acme', order=1, using=connection)
        connection.commit()
        assert exists(store, id)
    engine.dispose()


def test_a_file_that_is_no_store_is_refused(store, tmp_path):
    other = sqlite3.connect(tmp_path / 'other.db')
    with pytest.raises(weir.Error, match='not a weir store') as caught:
        ship.enqueue('acme', order=1, using=other)
    assert 'migrate(share=True)' in caught.value.hint
    other.close()


# --- the file of an application as the store ---


@pytest.fixture
def application(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / 'app.db')) as connection:
        connection.execute('CREATE TABLE orders (number INTEGER)')
        connection.execute('INSERT INTO orders VALUES (7)')
        connection.commit()
        yield connection


def test_the_file_of_an_application_becomes_a_store_when_asked(application, tmp_path):
    store = weir.Store(str(tmp_path / 'app.db'))
    with pytest.raises(weir.Error, match='another application'):
        store.migrate()
    assert store.migrate(share=True) > 0
    assert store.migrate(share=True) == 0
    store.set_workspace('acme')
    assert application.execute('SELECT number FROM orders').fetchone() == (7,)
    store.close()


def test_a_name_that_is_taken_leaves_the_file_as_it_was(application, tmp_path):
    application.execute('CREATE TABLE workspaces (mine TEXT)')
    before = application.execute('SELECT sql FROM sqlite_schema ORDER BY 1').fetchall()
    with pytest.raises(weir.Error, match='workspaces'):
        weir.Store(str(tmp_path / 'app.db')).migrate(share=True)
    assert application.execute('SELECT sql FROM sqlite_schema ORDER BY 1').fetchall() == before
    assert application.execute('PRAGMA application_id').fetchone() == (0,)


def test_a_file_with_a_schema_number_is_refused(application, tmp_path):
    application.execute('PRAGMA user_version = 5')
    with pytest.raises(weir.Error, match='user_version is 5'):
        weir.Store(str(tmp_path / 'app.db')).migrate(share=True)
    (tmp_path / 'text.db').write_text('no database, but long enough to be read as one' * 20)
    with pytest.raises(weir.StoreUnavailable, match='cannot become a store'):
        weir.Store(str(tmp_path / 'text.db')).migrate(share=True)


PROGRAM = """
    import sys, weir
    @weir.workflow(name='ship-on-sqlite')
    def ship(order: int):
        return order
    path = sys.argv[1]
    weir.configure(path)
    {connect}
    kept = ship.enqueue('acme', order=1, using=connection)
    connection.execute('COMMIT')
    connection.execute('BEGIN IMMEDIATE')
    lost = ship.enqueue('acme', order=2, using=connection)
    connection.execute('ROLLBACK')
    print(kept, lost)
    {after}
"""


def run(python, store, connect, after=''):
    """In a process of its own, because an extension belongs to the first copy of SQLite that loads it."""
    program = textwrap.dedent(PROGRAM).format(connect=textwrap.dedent(connect), after=textwrap.dedent(after))
    environment = {**os.environ, 'PYTHONPATH': PACKAGES}
    path = store.url.split(':', 1)[1]
    done = subprocess.run([python, '-c', program, path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_apsw_has_a_copy_of_sqlite_of_its_own(store):
    pytest.importorskip('apsw')
    kept, lost, refusal = run(
        sys.executable,
        store,
        "import apsw; connection = apsw.Connection(path); connection.execute('BEGIN IMMEDIATE')",
        """
try:
    weir.default_store().usage('acme')
    ship.enqueue('acme', order=3, using=connection)
except weir.Misuse as problem:
    print(problem.message.split(':')[-1].strip().replace(' ', '-'))
""",
    )
    assert exists(store, kept)
    assert not exists(store, lost)
    assert refusal == 'locks-of-the-file-would-be-lost'


DEBIAN = '/usr/bin/python3'


@pytest.mark.skipif(
    not os.path.exists(DEBIAN)
    or subprocess.run([DEBIAN, '-c', 'import sqlite3; sqlite3.Connection.enable_load_extension']).returncode != 0,
    reason='no Python of the system whose sqlite3 loads extensions',
)
def test_a_python_that_loads_extensions_needs_no_preparation(store):
    kept, lost = run(DEBIAN, store, 'import sqlite3; connection = sqlite3.connect(path)')
    assert exists(store, kept)
    assert not exists(store, lost)


def test_where_extensions_cannot_be_loaded_the_error_says_what_to_do(store, connection, monkeypatch):
    class Plain:
        pass

    with pytest.raises(weir.Misuse, match='cannot load extensions') as caught:
        _sqlite.load(Plain())
    assert 'add_functions_to_new_connections' in caught.value.hint
    monkeypatch.setattr(_sqlite, 'shares_sqlite', lambda: False)
    with pytest.raises(weir.Misuse, match='copy of SQLite of its own'):
        weir.add_functions_to_new_connections()
    with pytest.raises(weir.Misuse, match='locks of the file would be lost'):
        ship.enqueue('acme', order=1, using=connection)


# --- several libraries in one process that use the file ---

LOCKS = """
    import ctypes, os, shutil, sqlite3, sys, weir
    from weir import _sqlite, _weir
    path, folder = sys.argv[1:]

    def locks():
        files = {{os.stat(path + end).st_ino for end in ('', '-shm') if os.path.exists(path + end)}}
        found = [line.split() for line in open('/proc/locks')]
        return {{(inode, *words[6:8]) for words in found if words[4] == str(os.getpid()) and words[1] == 'POSIX'
                for inode in [int(words[5].split(':')[2])] if inode in files}}

    store = weir.Store(path)
    store.usage('acme')  # opens the file
    before = locks()
    {use}
    store.usage('acme')
    print(len(before), len(before - locks()))
    """
HOST = """
    if not _sqlite.can_load_extensions():
        weir.add_functions_to_new_connections()
    connection = sqlite3.connect(path)
    @weir.workflow(name='ship-on-sqlite')
    def ship(order: int):
        return order
    ship.enqueue('acme', order=1, using=connection, store=store)
    connection.commit()
    connection.close()
    """
SECOND_LIBRARY = """
    name = shutil.copy(os.path.join(os.path.dirname(_weir.__file__), 'libweir.so.0'), folder)
    second, first = ctypes.CDLL(name), ctypes.CDLL(_weir.__file__)
    address = lambda library: ctypes.cast(library.weir_open, ctypes.c_void_p).value
    assert address(second) != address(first)
    handle, error = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 16)
    assert second.weir_open(path.encode(), None, ctypes.byref(handle), error) == 0, error.raw[:200]
    second.weir_close(handle)
    """
OTHER_COPY = """
    import apsw
    connection = apsw.Connection(path)
    connection.execute('SELECT count(*) FROM workspaces').fetchall()
    connection.close()
    """


def locks_lost(store, tmp_path, use):
    """(locks that a process holds with an open store, how many of them it has lost after `use`)"""
    program = textwrap.dedent(LOCKS).format(use=textwrap.dedent(use))
    path = store.url.split(':', 1)[1]
    done = subprocess.run([sys.executable, '-c', program, path, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))


@pytest.mark.parametrize('use', [HOST, SECOND_LIBRARY, HOST + SECOND_LIBRARY], ids=['host', 'second library', 'both'])
def test_the_host_s_sqlite_and_a_second_copy_of_the_library_keep_the_locks(store, tmp_path, use):
    """They share the system's copy of SQLite, which knows all connections of the process."""
    held, lost = locks_lost(store, tmp_path, use)
    assert held > 0
    assert lost == 0


def test_another_copy_of_sqlite_loses_the_locks(store, tmp_path):
    """The reason why weir refuses its connections while a store is open. It shows that the test above can fail."""
    held, lost = locks_lost(store, tmp_path, OTHER_COPY)
    assert held > 0
    assert lost > 0
