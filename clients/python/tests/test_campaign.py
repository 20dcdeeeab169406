"""Workers of both languages are killed and frozen at random while they run; the functions' own notes are the judge.

WEIR_CAMPAIGN_KILLS is the number of faults on each store, WEIR_CAMPAIGN_SEED replays their choice. WEIR_NODE_PROJECT is a
folder whose node_modules has the package for Node; without it all workers are of Python (`./dev check languages` sets it).
"""

import collections
import os
import random
import shutil
import signal
import sys
import time

import pytest
from conftest import SOURCE
from scene import APPS, Scene, wait_until

sys.path.insert(0, str(SOURCE / 'tests' / 'end_to_end'))
from freezing import holds_write_lock  # noqa: E402
from waiting import process_state  # noqa: E402

FAULTS = int(os.environ.get('WEIR_CAMPAIGN_KILLS', '10'))
SEED = int(os.environ.get('WEIR_CAMPAIGN_SEED', str(random.randrange(1 << 30))))
NODE_PROJECT = os.environ.get('WEIR_NODE_PROJECT')
CAPS = {'small': 2, 'large': 5}
#: A loaded machine must not end the first: nothing here would note that. Each freeze has a worker with the second one.
LEASE, SHORT_LEASE = '60s', '2s'
SECONDS_IN_COMMIT = 5.0
WAITING = 30


class Campaign:
    def __init__(self, scene):
        self.scene, self.random = scene, random.Random(SEED)
        self.ids, self.workers = {}, []
        self.brittle = set()  # processes with the short lease
        self.faults = collections.defaultdict(list)  # of a process: when it was killed
        for name, cap in CAPS.items():
            scene.store.set_workspace(name, max_concurrent=cap)
        if NODE_PROJECT:
            shutil.copy(APPS.with_name('campaign.js'), scene.folder)
            os.symlink(os.path.join(NODE_PROJECT, 'node_modules'), scene.folder / 'node_modules')
        for number in range(3):
            self.workers.append(self.start(number, LEASE))
        scene.observer()

    def start(self, number, lease):
        if NODE_PROJECT and number % 2:
            program = os.path.join(NODE_PROJECT, 'node_modules', 'weir', 'bin', 'weir.js')
            words = ['node', program, 'worker', './campaign.js', '--store', self.scene.url, '--lease', lease]
            worker = self.scene.start(*words)
        else:
            worker = self.scene.worker('--threads', '8', app='campaign', lease=lease)
        worker.number = number
        return worker

    def enqueue(self):
        waiting = self.scene.store.count(states=['PENDING', 'CLAIMED', 'DISPATCHED'])
        for _ in range(WAITING - waiting):
            workspace = self.random.choice(sorted(CAPS))
            name = self.random.choice(['works', 'works-async'])
            id = self.scene.enqueue(name, workspace=workspace, ms=self.random.randrange(200))
            self.ids[id] = workspace

    def begins_with_work(self):
        """What waited may have begun before it was counted, so each look enqueues more."""
        self.enqueue()
        return len(self.scene.journal('begin'))

    def kill(self, worker):
        at = time.monotonic_ns()
        worker.kill()
        worker.wait()
        self.faults[worker.pid].append(at)

    def replace(self, worker):
        self.workers.remove(worker)
        self.kill(worker)
        self.workers.append(self.start(worker.number, LEASE))

    def open_runs(self, worker):
        """The fences under which the process has begun an execution that it has not ended."""
        ended = {(line['execution'], line['fence']) for line in self.scene.journal('end') if line['pid'] == worker.pid}
        begun = {(line['execution'], line['fence']) for line in self.scene.journal('begin') if line['pid'] == worker.pid}
        return dict(begun - ended)

    def stop_in_a_run(self, worker):
        """Whether it stands still with a run; it goes on when it has none."""
        self.enqueue()
        if not self.open_runs(worker):
            return False
        worker.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(worker.pid) == 'T', 'the stop of the process')
        if self.open_runs(worker):
            return True
        worker.send_signal(signal.SIGCONT)
        return False

    def is_taken_over(self, runs):
        begins = self.scene.journal('begin')
        return any(line['fence'] > runs.get(line['execution'], line['fence']) for line in begins)

    def heartbeats(self, worker):
        return {(node['id'], node['seen_at']) for node in self.scene.store.nodes() if node['pid'] == worker.pid}

    def freeze(self, number):
        """A worker stands still until another one has taken over a run of it. Then it goes on, and registers again."""
        brittle = self.start(number, SHORT_LEASE)
        self.brittle.add(brittle.pid)
        for worker in self.workers:  # the scheduler may give all runs to one of them: no other is there
            self.kill(worker)
        wait_until(lambda: self.stop_in_a_run(brittle), 'a run of the worker with the short lease')
        runs, heartbeats = self.open_runs(brittle), self.heartbeats(brittle)
        self.workers = [self.start(worker.number, LEASE) for worker in self.workers]
        if holds_write_lock(brittle.pid):  # nobody can take over: the fault has a length
            time.sleep(SECONDS_IN_COMMIT)
        else:
            wait_until(lambda: self.is_taken_over(runs), 'the handover')
        brittle.send_signal(signal.SIGCONT)
        wait_until(lambda: self.heartbeats(brittle) - heartbeats, 'a heartbeat of the worker that stood still')
        self.kill(brittle)

    def run(self):
        self.enqueue()
        self.scene.wait_for_begins(1)
        for number in range(FAULTS):
            begun = len(self.scene.journal('begin'))
            wait_until(lambda so_far=begun: self.begins_with_work() >= so_far + 5, 'work between two faults')
            if number % 5 == 4:
                self.freeze(number // 5)
            else:
                self.replace(self.random.choice(self.workers))
        wait_until(lambda: self.scene.store.count(states=['PENDING', 'CLAIMED', 'DISPATCHED']) == 0, 'the end of all')

    # --- the judgement ---

    def end_of(self, begin, end, pid):
        """The clock is read before a kill. A run that began between them, and has no end, was over at once."""
        cuts = [at for at in self.faults[pid] if at >= begin]
        if end is None and not cuts and self.faults[pid]:
            return begin
        return min([end or float('inf'), *cuts])

    def runs(self):
        """Of each execution: (begin, end or the fault that ended it, whether it ended, process), by begin."""
        found = collections.defaultdict(list)
        ends = {(line['execution'], line['fence'], line['pid']): line['at'] for line in self.scene.journal('end')}
        for line in self.scene.journal('begin'):
            end = ends.get((line['execution'], line['fence'], line['pid']))
            until = self.end_of(line['at'], end, line['pid'])
            found[line['execution']].append((line['at'], until, end is not None and until == end, line['pid']))
        for runs in found.values():
            runs.sort()
        return found

    def judge(self):
        runs = self.runs()
        died = 0
        for id, workspace in self.ids.items():
            shown = self.scene.store.show(id)
            assert shown['workspace'] == workspace
            assert runs[id], f'{id} never ran and is {shown["status"]}'
            unfinished = sum(1 for run in runs[id] if not run[2] or run[3] in self.brittle)
            died += sum(1 for run in runs[id] if not run[2])
            if shown['status'] != 'COMPLETED':
                assert shown.get('error_code') == 'poison', shown
                assert unfinished >= 3, shown
            # A process with the short lease may lose it without a fault: it is late on a loaded machine.
            steady = [run for run in runs[id] if run[3] not in self.brittle]
            for first, second in zip(steady, steady[1:]):
                assert first[1] <= second[0], f'two runs of {id} overlap: {first}, {second}'
                if first[2]:  # it ended: only a process that then died or froze may have failed to record it
                    near = [at for at in self.faults[first[3]] if first[1] <= at <= second[0]]
                    assert near, f'{id} ran again after it had ended: {first}, {second}'
        self.judge_caps(runs)
        print(f'{len(self.ids)} executions, {FAULTS} faults cut {died} runs')
        assert died > 0, 'no fault met a run: nothing was tested'

    def judge_caps(self, runs):
        for workspace, cap in CAPS.items():
            changes = []
            for id, of in self.ids.items():
                if of == workspace:
                    steady = [run for run in runs[id] if run[3] not in self.brittle]
                    changes += [change for run in steady for change in ((run[0], 1), (run[1], -1))]
            busy = most = 0
            for _, change in sorted(changes):
                busy += change
                most = max(most, busy)
            assert 0 < most <= cap, f'{workspace} ran {most} at once, its cap is {cap}'


@pytest.mark.parametrize('kind', ['sqlite', 'postgres'])
def test_killed_and_frozen_workers_lose_nothing(tmp_path, request, kind):
    url = f'sqlite:{tmp_path}/weir.db' if kind == 'sqlite' else request.getfixturevalue('postgres_url')
    print(f'seed {SEED}: WEIR_CAMPAIGN_SEED={SEED} repeats the choice of faults')
    scene = Scene(tmp_path, url)
    try:
        campaign = Campaign(scene)
        campaign.run()
        campaign.judge()
    finally:
        scene.close()
