"""The trace context of a request: given, or OpenTelemetry's current one; on every way to enqueue, and in the function."""

import asyncio
import contextlib
import sqlite3

import pytest
from opentelemetry import trace

import weir
from weir import _sqlite

TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
TRACEPARENT = f'00-{TRACE}-00f067aa0ba902b7-01'
OF_SPAN = f'00-{TRACE}-00000000000000ab-01'


@weir.workflow(name='traced')
def traced(*, ctx):
    return ctx.traceparent


def stored(store, id):
    return store.show(id)['traceparent']


@contextlib.contextmanager
def open_span():
    context = trace.SpanContext(int(TRACE, 16), 0xAB, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        yield


@pytest.fixture
def store(weir_store):
    weir_store.set_workspace('acme')
    traced.publish(weir_store)
    return weir_store


def test_a_function_reads_the_context_of_its_request(store, weir_worker):
    assert store.result(traced.enqueue('acme', traceparent=TRACEPARENT), 60) == TRACEPARENT
    assert store.result(traced.enqueue('acme'), 60) is None


def test_every_enqueue_takes_a_context(store):
    request = weir.Request('acme', 'traced', traceparent=TRACEPARENT)
    ids = [
        store.enqueue('acme', 'traced', traceparent=TRACEPARENT),
        traced.enqueue('acme', traceparent=TRACEPARENT),
        asyncio.run(traced.enqueue_async('acme', traceparent=TRACEPARENT)),
        *store.enqueue_many([request]),
    ]
    assert [stored(store, id) for id in ids] == [TRACEPARENT] * 4


def test_a_context_that_is_none_is_refused(store):
    with pytest.raises(weir.Error, match='is no traceparent of version 00'):
        traced.enqueue('acme', traceparent='01-x')


def test_the_open_span_is_the_context_unless_one_is_given(store):
    with open_span():
        ids = [traced.enqueue('acme'), *store.enqueue_many([weir.Request('acme', 'traced')])]
        given = traced.enqueue('acme', traceparent=TRACEPARENT)
    assert [stored(store, id) for id in ids] == [OF_SPAN] * 2
    assert stored(store, given) == TRACEPARENT
    assert stored(store, traced.enqueue('acme')) is None


def test_an_enqueue_in_a_transaction_on_sqlite(store):
    if not _sqlite.can_load_extensions():
        weir.add_functions_to_new_connections()
    with contextlib.closing(sqlite3.connect(store.url.split(':', 1)[1])) as connection:
        store.close()
        given = traced.enqueue('acme', traceparent=TRACEPARENT, using=connection)
        with open_span():
            current = traced.enqueue('acme', using=connection)
        connection.commit()
    assert (stored(store, given), stored(store, current)) == (TRACEPARENT, OF_SPAN)


def test_an_enqueue_in_a_transaction_on_postgresql(postgres_url):
    psycopg = pytest.importorskip('psycopg')
    with weir.configure(postgres_url) as store:
        store.migrate()
        store.set_workspace('acme')
        traced.publish(store)
        with psycopg.connect(store.url) as connection:
            given = traced.enqueue('acme', traceparent=TRACEPARENT, using=connection)
            with open_span():
                current = traced.enqueue('acme', using=connection)
        assert (stored(store, given), stored(store, current)) == (TRACEPARENT, OF_SPAN)
