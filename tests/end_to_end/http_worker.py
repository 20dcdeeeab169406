#!/usr/bin/env python3
"""A worker over HTTP with the standard library alone, as docs/workers.md describes one. Tests use it as a class, and as a
program whose handler `record` writes each of its runs down:

    http_worker.py NAME SLOTS RECORDS LOCKS URL...

A run appends {"at", "what": "begin" or "end", "execution", "workspace", "attempt", "run", "worker"} to the file RECORDS. It
holds a lock on a file in the folder LOCKS meanwhile, which the kernel releases when the process dies. A second run of the
step at the same time writes "overlap". The last record of a run has "leased_until": a run that stood still may end after
the end of its lease, when another one has begun.
"""

import contextlib
import fcntl
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse

CALL_SECONDS = 10
CLAIM_WAIT_US = 5000000
LEAVE_SECONDS = 2
PAUSE_SECONDS = 0.05
PROGRESS_TEXT_MAX = 200


class Refused(Exception):
    def __init__(self, status, problem):
        super().__init__(f'{status} {problem}')
        self.status, self.code = status, problem.get('code')


class Retry(Exception):
    """A handler raises it: the policy of the step decides about the next attempt, or the delay."""

    def __init__(self, code, error, after_us=None, retry=True):
        super().__init__(error)
        self.code, self.after_us, self.retry = code, after_us, retry


class Run:
    """A task that the worker has until `ends`. `cancelled`: the result is wanted no more. `stopped`: the worker ends, and
    reports no error. Lost: another one may have it."""

    def __init__(self, task, node, ends, news):
        self.task, self.node, self.ends, self.news = task, node, ends, news
        self.cancelled, self.stopped, self.refused = threading.Event(), threading.Event(), False
        self.progress = None  # the next heartbeat carries it

    def report_progress(self, fraction, text):
        """The node cuts the text as well, but refuses a heartbeat of megabytes."""
        text = text and text.encode()[:PROGRESS_TEXT_MAX].decode(errors='ignore')
        self.progress = {'fraction': fraction, 'text': text}
        self.news.set()

    def is_lost(self):
        """By the clock, too: no thread that waits for a node may delay it."""
        return self.refused or time.monotonic() > self.ends

    def is_over(self):
        return self.cancelled.is_set() or self.is_lost()


def _beat_of(run):
    return {'task': run.task['task'], **({} if run.progress is None else {'progress': run.progress})}


class Worker:
    def __init__(self, name, urls, handlers, slots=4):
        self.name, self.handlers, self.slots = name, handlers, slots
        self.nodes = [urllib.parse.urlsplit(url).netloc for url in urls]
        self.home, self.lease = 0, 10.0
        self.runs, self.threads, self.changed = {}, [], threading.Condition()
        self.stopping, self.news = threading.Event(), threading.Event()

    # --- calls ---

    def call(self, node, verb, body, seconds=CALL_SECONDS):
        connection = http.client.HTTPConnection(self.nodes[node], timeout=seconds)
        try:
            connection.request('POST', f'/v1/tasks:{verb}', json.dumps({'worker': self.name, **body}),
                               {'Content-Type': 'application/json'})
            response = connection.getresponse()
            answer = json.loads(response.read() or b'{}')
        finally:
            connection.close()
        if response.status >= 400:
            raise Refused(response.status, answer)
        return answer

    def claim(self, node, most, wait_us):
        body = {'handlers': list(self.handlers), 'max': most, 'wait_us': wait_us}
        return self.call(node, 'claim', body, CALL_SECONDS + wait_us / 1e6)

    def report(self, node, verb, items):
        """The word for each task."""
        try:
            answer = self.call(node, verb, {'tasks': items}, self.lease / 3)
        except Refused as refused:
            if len(items) == 1 and refused.code in ('task_lost', 'task_unknown'):
                return {items[0]['task']: refused.code}
            raise
        return {task['task']: task['verdict'] for task in answer['tasks']}

    # --- the loops ---

    def run(self):
        beating = threading.Thread(target=self._beat, daemon=True)
        beating.start()
        while not self.stopping.is_set():
            with self.changed:
                self.changed.wait_for(lambda: len(self.runs) < self.slots or self.stopping.is_set(), PAUSE_SECONDS * 20)
                most = self.slots - len(self.runs)
            if most > 0 and not self.stopping.is_set():
                self._claim_once(most)
        for thread in self.threads:
            thread.join()
        self._leave()

    def stop_runs(self):
        """Claims nothing more, and asks the runs to end."""
        self.stopping.set()
        with self.changed:
            for run in self.runs.values():
                run.stopped.set()

    def _leave(self):
        """Other workers get at once what has no result. A node that does not answer waits for the end of the leases."""
        for node in range(len(self.nodes)):
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, Refused):
                self.call(node, 'leave', {}, LEAVE_SECONDS)

    def _claim_once(self, most):
        node, sent = self.home, time.monotonic()
        try:
            answer = self.claim(node, most, CLAIM_WAIT_US)
        except (OSError, http.client.HTTPException, ValueError, Refused) as error:
            if isinstance(error, Refused) and error.status not in (404, 429, 503):
                raise
            self.home = (node + 1) % len(self.nodes)
            self.stopping.wait(PAUSE_SECONDS)
            return
        ends = sent + (answer['lease_us'] + answer['waited_us']) / 1e6
        for task in answer['tasks']:
            run = Run(task, node, ends, self.news)
            with self.changed:
                self.lease = answer['lease_us'] / 1e6
                self.runs[task['task']] = run
                self.changed.notify_all()
            thread = threading.Thread(target=self._run_task, args=(run,), daemon=True)
            self.threads = [other for other in self.threads if other.is_alive()] + [thread]
            thread.start()

    def _run_task(self, run):
        verb, item = 'complete', {'task': run.task['task']}
        try:
            item['output'] = self.handlers[run.task['handler']](run)
        except Retry as retry:
            verb, item = 'fail', {**item, 'error_code': retry.code, 'error': str(retry), 'retry': retry.retry}
            if retry.after_us is not None:
                item['retry_after_us'] = retry.after_us
        except Exception as error:
            verb, item = 'fail', {**item, 'error': repr(error)}
        if verb == 'complete' or not run.stopped.is_set():
            self._deliver(run, verb, item)
        with self.changed:
            del self.runs[run.task['task']]
            self.changed.notify_all()

    def _deliver(self, run, verb, item):
        """Until a node has taken it. The lease goes on meanwhile; when it is over, nobody waits for the result."""
        while not run.is_lost():
            try:
                if self.report(run.node, verb, [item])[item['task']] != 'task_unknown':
                    return
            except (OSError, http.client.HTTPException, ValueError, Refused):
                pass
            run.node = (run.node + 1) % len(self.nodes)
            time.sleep(PAUSE_SECONDS)

    def _beat(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.runs)
            self.news.wait(self.lease / 3 if self._beat_once() else PAUSE_SECONDS)

    def _beat_once(self):
        """Whether all leases were renewed. A task that its node does not know is offered to the next one."""
        with self.changed:
            runs = list(self.runs.values())
        self.news.clear()
        results, by_node = {}, {}
        for run in runs:
            by_node.setdefault(run.node, []).append(run)
        sent = time.monotonic()
        for node, mine in by_node.items():
            try:
                results.update(self.report(node, 'heartbeat', [_beat_of(run) for run in mine]))
            except (OSError, http.client.HTTPException, ValueError, Refused):
                pass
        is_fine = True
        for run in runs:
            word = results.get(run.task['task'], 'task_unknown')
            if word in ('accepted', 'cancelled'):
                run.ends = sent + self.lease
            if word == 'cancelled':
                run.cancelled.set()
            if word == 'task_lost':
                run.refused = True
            if word == 'task_unknown' and run.task['task'] in self.runs:
                is_fine = False
                run.node = (run.node + 1) % len(self.nodes)
        if not is_fine:
            self._announce()
        return is_fine

    def _announce(self):
        """A node takes executions over only when it has the handler: a claim of nothing tells it."""
        for node in range(len(self.nodes)):
            try:
                self.claim(node, 0, 0)
            except (OSError, http.client.HTTPException, ValueError, Refused):
                pass


# --- the program ---

class Recorder:
    def __init__(self, name, records, locks):
        self.name, self.locks, self.count = name, locks, 0
        self.file = os.open(records, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def write(self, what, run, number):
        line = {'at': time.monotonic(), 'what': what, 'execution': run.task['execution_id'], 'run': number,
                'workspace': run.task['workspace'], 'attempt': run.task['attempt'], 'worker': self.name,
                'leased_until': run.ends}
        os.write(self.file, (json.dumps(line) + '\n').encode())

    def record(self, run):
        number = f'{self.name}-{id(run)}-{time.monotonic_ns()}'
        lock = os.open(os.path.join(self.locks, run.task['execution_id']), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.write('overlap', run, number)
            self.write('begin', run, number)
            ends, file = time.monotonic() + run.task['input'].get('seconds', 0), run.task['input'].get('until')
            while (time.monotonic() < ends or (file and not os.path.exists(file))) and not run.is_over():
                time.sleep(PAUSE_SECONDS)
            self.write('left' if run.is_over() else 'end', run, number)
            return number
        finally:
            os.close(lock)


def main():
    name, slots, records, locks, *urls = sys.argv[1:]
    recorder = Recorder(name, records, locks)
    print('started', flush=True)
    Worker(name, urls, {'record': recorder.record}, int(slots)).run()


if __name__ == '__main__':
    main()
