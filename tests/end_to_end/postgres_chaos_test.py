#!/usr/bin/env python3
"""Several nodes on one PostgreSQL, killed and paused at random, and the server with them; then the steps' own records are
asked what really happened (see crash_test.py for what must hold).

usage: postgres_chaos_test.py BINARY [TEST ...]      WEIR_TEST_SEED replays the random ones
"""

import random
import signal
import sys
import threading
import time

import crash_test
from crash_test import SEED, SHORT_LEASE, Scene
from harness import run_tests
from postgres_server import PostgresServer

SERVER = None
DRAIN_SECONDS = 180


def _prepare(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _fleet(scene, chance, rounds, disturb):
    """Three nodes, one of which is killed and replaced in each round, while `disturb(round)` does something else."""
    nodes = [scene.node(lease=SHORT_LEASE, name=f'node-{i}') for i in range(3)]
    for number in range(rounds):
        time.sleep(0.3 + chance.random() * 0.5)
        at = chance.randrange(len(nodes))
        nodes[at].send_signal(signal.SIGKILL)
        nodes[at].wait()
        disturb(number)
        nodes[at] = scene.node(lease=SHORT_LEASE, name=f'node-{number + 3}')
    return nodes


def _finish(scene, nodes):
    # A node that found its lease lost has ended by itself, so a last one is there in any case.
    nodes.append(scene.node(name='last'))
    scene.drain(DRAIN_SECONDS)
    for node in nodes:
        if node.poll() is None:
            node.send_signal(signal.SIGTERM)
            node.wait(40)
    scene.check()


def nodes_are_killed_under_load(weir):
    chance = random.Random(SEED)
    print(f'# WEIR_TEST_SEED={SEED}', flush=True)
    scene = Scene(weir)
    scene.enqueue(pro_co=150, free_co=20)
    _finish(scene, _fleet(scene, chance, 12, lambda number: None))


def nodes_and_the_server_are_killed_under_load(weir):
    chance = random.Random(SEED + 1)
    scene = Scene(weir)
    scene.enqueue(pro_co=150, free_co=20)

    def disturb(number):
        if number % 3 == 2:
            SERVER.stop(chance.choice((signal.SIGKILL, signal.SIGQUIT)))
            time.sleep(chance.random())
            SERVER.start()

    _finish(scene, _fleet(scene, chance, 9, disturb))


def connections_are_ended_and_nodes_paused_under_load(weir):
    chance = random.Random(SEED + 2)
    scene = Scene(weir)
    scene.enqueue(pro_co=120, free_co=15)
    done = threading.Event()

    def end_connections():
        while not done.wait(0.15):
            SERVER.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weir'"
                       " ORDER BY random() LIMIT 2")

    thread = threading.Thread(target=end_connections)
    nodes = [scene.node(lease=SHORT_LEASE, name=f'node-{i}') for i in range(3)]
    thread.start()
    try:
        for _ in range(4):
            time.sleep(0.3 + chance.random() * 0.5)
            node = chance.choice(nodes)
            node.send_signal(signal.SIGSTOP)
            time.sleep(0.2 + chance.random() * 3)  # often longer than its lease
            node.send_signal(signal.SIGCONT)
    finally:
        done.set()
        thread.join()
    _finish(scene, nodes)


if __name__ == '__main__':
    crash_test.POSTGRES = True
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _prepare))
