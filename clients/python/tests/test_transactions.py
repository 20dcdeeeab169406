"""Enqueue inside the transaction of the caller, with the drivers that people use, on a real PostgreSQL."""

import asyncio
import sqlite3

import pytest

import weir


@weir.workflow(name='ship')
def ship(order: int):
    return order


@pytest.fixture
def store(postgres_url):
    store = weir.configure(postgres_url)
    store.migrate()
    store.set_workspace('acme')
    ship.publish(store)
    yield store
    store.close()


def exists(store, id):
    try:
        return store.show(id)['workspace'] == 'acme'
    except weir.ExecutionNotFound:
        return False


def test_a_key_has_a_mode(store):
    psycopg = pytest.importorskip('psycopg')
    with psycopg.connect(store.url) as connection:
        first = ship.enqueue('acme', order=1, key='m', key_mode='debounce', debounce='1h', using=connection)
        connection.commit()
        second = ship.enqueue('acme', order=2, key='m', key_mode='replace', using=connection)
        connection.commit()
        assert ship.enqueue('acme', order=3, key='m', key_mode='one_active', using=connection) == second
    assert [store.show(id)['status'] for id in (first, second)] == ['CANCELLED', 'PENDING']


def test_psycopg(store):
    psycopg = pytest.importorskip('psycopg')
    with psycopg.connect(store.url) as connection:
        id = ship.enqueue('acme', order=1, key='a', using=connection)
        assert not exists(store, id)
        connection.commit()
        assert exists(store, id)
        assert ship.enqueue('acme', order=1, key='a', using=connection.cursor()) == id
        other = ship.enqueue('acme', order=2, using=connection)
        connection.rollback()
        assert not exists(store, other)
        with pytest.raises(weir.WorkspaceNotFound):
            ship.enqueue('nobody', order=1, using=connection)
        third = ship.enqueue('acme', order=3, using=connection)  # the refusal left the transaction as it was
        connection.commit()
        assert exists(store, third)


def test_psycopg_async(store):
    psycopg = pytest.importorskip('psycopg')

    async def act():
        async with await psycopg.AsyncConnection.connect(store.url) as connection:
            id = await ship.enqueue_async('acme', order=1, using=connection)
            await connection.rollback()
            assert not exists(store, id)
            id = await ship.enqueue_async('acme', order=1, using=connection)
            await connection.commit()
            assert exists(store, id)
        assert exists(store, await ship.enqueue_async('acme', order=4))

    asyncio.run(act())


def found_by_labels(store, id):
    shown = store.show(id)
    return (shown['business_key'], shown['labels']) == ('order-17', {'tier': 'gold'})


def test_labels_and_business_keys_take_part_in_a_transaction(store):
    psycopg = pytest.importorskip('psycopg')
    labelled = {'business_key': 'order-17', 'labels': {'tier': 'gold'}}
    with psycopg.connect(store.url) as connection:
        id = ship.enqueue('acme', order=1, using=connection, **labelled)
        bare = ship.enqueue('acme', order=2, using=connection)
        connection.commit()
    assert found_by_labels(store, id)
    assert store.show(bare)['labels'] in (None, {})
    assert found_by_labels(store, ship.enqueue('acme', order=3, **labelled))


def test_asyncpg(store):
    asyncpg = pytest.importorskip('asyncpg')

    async def act():
        connection = await asyncpg.connect(store.url)
        async with connection.transaction():
            labelled = {'business_key': 'order-17', 'labels': {'tier': 'gold'}}
            id = await ship.enqueue_async('acme', order=1, using=connection, **labelled)
            assert not exists(store, id)
        assert exists(store, id)
        assert found_by_labels(store, id)
        await connection.close()

    asyncio.run(act())


def test_sqlalchemy(store):
    sqlalchemy = pytest.importorskip('sqlalchemy')
    from sqlalchemy.orm import Session

    engine = sqlalchemy.create_engine(
        'postgresql+psycopg://',
        creator=lambda: __import__('psycopg').connect(store.url),
        poolclass=sqlalchemy.pool.NullPool,
    )
    with engine.connect() as connection:
        id = ship.enqueue('acme', order=1, using=connection)
        assert not exists(store, id)
        connection.commit()
        assert exists(store, id)
    with Session(engine) as session:
        id = ship.enqueue('acme', order=2, using=session)
        session.rollback()
        assert not exists(store, id)


def test_django(store, postgres_server):
    django = pytest.importorskip('django')
    import psycopg
    from django.conf import settings

    with psycopg.connect(store.url) as connection:
        info = connection.info
        place = {'HOST': info.host, 'PORT': info.port, 'USER': info.user, 'NAME': info.dbname}
    settings.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', **place}})
    django.setup()
    from django.db import connection, transaction

    with transaction.atomic():
        id = ship.enqueue('acme', order=1, using='default')
        assert not exists(store, id)
    assert exists(store, id)
    with transaction.atomic():
        id = ship.enqueue('acme', order=2, using=connection)
        transaction.set_rollback(True)
    assert not exists(store, id)
    connection.close()


def test_what_is_no_connection_is_refused(store):
    with pytest.raises(weir.Misuse, match='no connection that weir knows'):
        ship.enqueue('acme', order=1, using=object())


def test_a_store_on_postgres_takes_part_in_no_transaction_of_sqlite(store):
    with pytest.raises(weir.Misuse, match='on PostgreSQL'):
        ship.enqueue('acme', order=1, using=sqlite3.connect(':memory:'))


def test_a_worker_on_postgres_runs_what_was_committed(store):
    with weir.Worker([ship], store=store):
        assert store.result(ship.enqueue('acme', order=7), 60) == 7
