#!/usr/bin/env python3
"""An upgrade while nodes run: nodes of an older version work, the new program migrates the store under them, nodes of both
work side by side and take over from each other, the older ones end. Then the steps' own records are asked what really
happened (see crash_test.py for what must hold). The rule: what runs goes on, what of the older version starts anew refuses.

usage: upgrade_test.py BINARY OLD_BINARY [TEST ...]      `./dev check upgrade` builds both
"""

import json
import os
import subprocess
import sys

from crash_test import Scene, _kill, _stop
from harness import Weir, run_tests
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

OLD_BINARY = os.path.abspath(sys.argv.pop(2))
LEASE = '30s'  # a busy machine loses nothing; a node that was killed is seen to be gone without it
SECONDS = 120
# The plan lists these without a number. The texts are those of a program that finds others in the store.
UNNUMBERED = {'functions_and_views': 'does not have the functions and views of this program',
              'all_views': 'does not have the views of this program'}


class Intake:
    """A program of the older version that stays: it enqueues what it is given and tells the ids."""

    def __init__(self, weir, scene):
        self.scene = scene
        self.process = weir.spawn('enqueue', '-', '-q', stdin=subprocess.PIPE)

    def enqueue(self, **counts):
        workspaces = [name.replace('_', '-') for name, count in counts.items() for _ in range(count)]
        for workspace in workspaces:
            line = json.dumps({'workspace': workspace, 'workflow': 'recorded'}) + '\n'
            self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        ids = [self.process.stdout.readline().decode().strip() for _ in workspaces]
        assert all(ids), self.process.stderr.read()
        self.scene.workspace_of.update(zip(ids, workspaces))
        return ids

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0, self.process.stderr.read()


class GatedScene(Scene):
    """With executions that are held until their gate opens; nothing of them is recorded."""

    def __init__(self, weir):
        super().__init__(weir)
        self.gated = set()

    def complete(self, it):
        it.maybe |= self.gated


class Upgrade:
    """`node_store`: the store as nodes name it, where they have another role than who migrates."""

    def __init__(self, weir, node_store):
        self.new, self.node_store = weir, node_store
        self.old = Weir(OLD_BINARY, weir.folder)
        self.old.environment, self.old.background = weir.environment, weir.background
        self.scene = GatedScene(self.old)
        self.nodes = {}
        os.mkdir(weir.path('gates'))
        wait = 'until [ -e "$0/$WEIR_EXECUTION_ID" ]; do sleep 0.05; done'
        weir.write('gated.json', json.dumps({'name': 'gated', 'steps': {'wait': {
            'exec': ['sh', '-c', wait, weir.path('gates')], 'timeout': '10m'}}}))
        self.old.good('workflow', 'apply', 'gated.json', '-q')
        self.old.good('workspace', 'set', 'gate-co', '-q')

    def start(self, weir, name):
        env = {'WEIR_LOG_LEVEL': 'warn', 'WEIR_NODE_LEASE': LEASE, 'WEIR_STORE': self.node_store}
        self.nodes[name] = weir.spawn('serve', '--allow-exec', '--node', name, env=env, stdout=subprocess.DEVNULL)
        wait_for(f'the coming up of {name}', lambda: self.state(name) == 'alive' or self.nodes[name].poll() is not None,
                 SECONDS)
        assert self.nodes[name].poll() is None, self.nodes[name].stderr.read()

    def all_are_up(self):
        for name, node in self.nodes.items():
            assert node.poll() is None, (name, node.returncode, node.stderr.read())

    def state(self, name):
        return {item['name']: item['state'] for item in self.scene.weir.items('node', 'list')}.get(name)

    def only(self, *names):
        """The others claim nothing more; what they hold they keep."""
        for name, process in self.nodes.items():
            if process.poll() is None:
                self.new.good('node', 'resume' if name in names else 'pause', name, '-q')

    def items(self, ids):
        wanted, found, cursor = set(ids), {}, []
        while wanted - set(found):
            page = self.scene.weir.good('list', '--limit', '1000', '--json', *cursor).json()
            found.update((item['id'], item) for item in page['items'] if item['id'] in wanted)
            if page['next_cursor'] is None:
                break
            cursor = ['--cursor', page['next_cursor']]
        assert set(found) == wanted, f'lost: {sorted(wanted - set(found))[:5]}'
        return list(found.values())

    def await_ended(self, ids):
        """The nodes that ended them."""
        try:
            wait_for('the end of all', lambda: all(item['status'] == 'COMPLETED' for item in self.items(ids)), SECONDS)
        except AssertionError as error:
            raise AssertionError(self.scene.explain()) from error
        return {item['node'] for item in self.items(ids)}

    def migrate(self):
        """What the new version brings; it says so itself."""
        pending = [item['name'] for item in self.new.items('store', 'plan') if not item['applied']]
        if pending:
            refused = self.new.run('list', code=6)
            lacks = UNNUMBERED.get(pending[-1]) if len(pending) == 1 else None
            assert (lacks or 'this program needs') in refused.err and 'weir store migrate' in refused.err, refused
        said = self.new.good('store', 'migrate').err
        assert [name for name in pending if f'applying {name}' not in said] == [], said
        assert all(item['applied'] for item in self.new.items('store', 'plan'))
        print(f'# migrated under load: {", ".join(pending) or "nothing, the schema is the same"}', flush=True)
        return pending

    def old_ones_that_start_now(self, pending):
        if not pending:
            self.old.good('list', '-q')
            return
        if len(pending) == 1 and pending[0] in UNNUMBERED:
            # A checksum has no order, so nothing shows which of them are the newer ones. Only a numbered file would.
            for words in (('serve', '--node', 'late'), ('list',), ('enqueue', '-w', 'pro-co', 'recorded')):
                refused = self.old.run(*words, code=6)
                assert UNNUMBERED[pending[0]] in refused.err, (words, refused)
            assert self.state('late') is None
            return
        for words in (('serve', '--node', 'late'), ('list',), ('enqueue', '-w', 'pro-co', 'recorded'),
                      ('store', 'migrate')):
            refused = self.old.run(*words, code=6)
            lines = refused.err.splitlines()
            assert len(lines) == 2 and 'this program knows up to' in lines[0], (words, refused)
            assert 'a newer weir: install that version; nothing was changed' in lines[1], (words, refused)
        assert self.state('late') is None

    def dies_and_is_taken_over(self, victim, heir, intake):
        """The victim is killed with work at hand, and the heir alone may go on with it."""
        self.only(victim)
        ids = intake.enqueue(pro_co=10, free_co=2)
        gated = self.new.enqueue('-w', 'gate-co', 'gated')
        self.scene.gated.add(gated)
        self.await_held(gated, victim)
        _kill(self.nodes[victim])
        self.only(heir)
        self.await_held(gated, heir)
        self.new.write(f'gates/{gated}', '')
        assert heir in self.await_ended([*ids, gated])
        item, = self.items([gated])
        assert item['node'] == heir and item['handovers'] == 1, item

    def await_held(self, id, name):
        def is_held():
            item, = self.items([id])
            return item['status'] == 'DISPATCHED' and item['node'] == name
        wait_for(f'the start of {id} by {name}', is_held, SECONDS)


def _goes_through(weir, node_store, disturb=lambda: None):
    upgrade = Upgrade(weir, node_store)
    scene = upgrade.scene
    upgrade.start(upgrade.old, 'old-1')
    upgrade.start(upgrade.old, 'old-2')
    intake = Intake(upgrade.old, scene)
    before = intake.enqueue(pro_co=60, free_co=10)
    wait_for('a step at work', scene.runs, SECONDS, pause=SHORT)

    pending = upgrade.migrate()
    scene.weir = upgrade.new
    disturb()
    after = intake.enqueue(pro_co=15, free_co=3)
    assert upgrade.await_ended(before + after) <= {'old-1', 'old-2'}
    upgrade.all_are_up()
    upgrade.old_ones_that_start_now(pending)

    upgrade.start(upgrade.new, 'new-1')
    upgrade.start(upgrade.new, 'new-2')
    together = intake.enqueue(pro_co=15, free_co=3)
    scene.enqueue(pro_co=15, free_co=3)
    upgrade.dies_and_is_taken_over('new-1', 'old-1', intake)
    upgrade.dies_and_is_taken_over('old-1', 'new-2', intake)
    upgrade.only('old-2', 'new-2')
    upgrade.await_ended(together)

    intake.enqueue(pro_co=15, free_co=3)
    code = _stop(upgrade.nodes['old-2'])
    assert code == 0, (code, upgrade.nodes['old-2'].stderr.read())
    intake.close()
    upgrade.await_ended(scene.workspace_of)
    code = _stop(upgrade.nodes['new-2'])
    assert code == 0, (code, upgrade.nodes['new-2'].stderr.read())
    scene.check()


def nodes_of_an_older_version_go_on_while_the_file_is_migrated(weir):
    weir.environment['WEIR_STORE'] = f'sqlite:{weir.path("weir.db")}'
    _goes_through(weir, weir.environment['WEIR_STORE'])


def nodes_of_an_older_version_go_on_while_the_database_is_migrated(weir):
    server = PostgresServer()
    server.sql('CREATE ROLE node LOGIN')
    weir.environment['WEIR_STORE'] = server.url()
    old = Weir(OLD_BINARY, weir.folder)
    old.environment = weir.environment
    old.good('store', 'init', '--role', 'node', '-q')

    def disturb():
        """Their connections are new ones too: nothing that was prepared before the migration is left."""
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'weir%'"
                   " AND usename = 'node'")

    _goes_through(weir, server.url(user='node'), disturb)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
