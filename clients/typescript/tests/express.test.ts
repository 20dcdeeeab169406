/** The example of docs/typescript.md: a route of Express enqueues inside its transaction, and a worker runs the function. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import express from 'express';
import pg from 'pg';
import { configure, Registry, workflow } from 'weir';
import { cleanUp, makeWorker, PostgresServer } from './support';

const register = new Registry();
const sendInvoice = workflow(
  { name: 'send-invoice', retry: { attempts: 5, backoff: '10s' }, timeout: '5m', register },
  async (params: { order: number }, ctx) => ({ sent: params.order, for: ctx.workspace }),
);

function makeApp(pool: pg.Pool): express.Express {
  const app = express();
  app.use(express.json());
  app.post('/orders', async (request, response) => {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      const { rows } = await client.query('INSERT INTO orders (item) VALUES ($1) RETURNING id', [request.body.item]);
      const order: number = rows[0].id;
      const id = await sendInvoice.enqueue({ workspace: 'acme', params: { order }, key: `order-${order}`, using: client });
      if (request.body.item === 'nothing') {
        throw new Error('there is nothing to order');
      }
      await client.query('COMMIT');
      response.status(202).json({ order, execution: id });
    } catch (problem) {
      await client.query('ROLLBACK');
      response.status(400).json({ problem: (problem as Error).message });
    } finally {
      client.release();
    }
  });
  return app;
}

test('a route enqueues with its order, and a worker sends the invoice', async (t) => {
  const server = new PostgresServer();
  cleanUp(t, () => server.stop());
  const store = configure(await server.database());
  cleanUp(t, () => store.close());
  await store.migrate();
  await store.setWorkspace('acme', { plan: 'pro' });
  const pool = new pg.Pool({ connectionString: store.url });
  cleanUp(t, () => pool.end());
  await pool.query('CREATE TABLE orders (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)');
  await makeWorker(t, { workflows: [sendInvoice] });
  const http = makeApp(pool).listen(0, '127.0.0.1');
  await once(http, 'listening');
  cleanUp(t, () => new Promise((resolve) => http.close(resolve)));
  const post = (item: string) =>
    fetch(`http://127.0.0.1:${(http.address() as AddressInfo).port}/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ item }),
    });
  const answer = await post('a book');
  assert.equal(answer.status, 202);
  const { order, execution } = (await answer.json()) as { order: number; execution: string };
  assert.deepEqual(await store.result(execution, { timeout: 60 }), { sent: order, for: 'acme' });
  assert.equal((await post('nothing')).status, 400);
  assert.equal((await pool.query('SELECT count(*)::int AS count FROM orders')).rows[0].count, 1);
});
