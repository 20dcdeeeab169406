"""The queues that are compared: how each is called, how many jobs it drains, and what it guarantees.

The guarantees are read from the documentation and the source of the pinned versions; `notes` names the place. `cap` is the
number of jobs of one tenant that run at a time, over all nodes. `fairness` is the order between tenants. `history` is what
remains of a job that has ended. `fencing` is what stops the end of a lost attempt from changing a later attempt.
"""

GUARANTEES = ('cap', 'fairness', 'history', 'fencing')


class Peer:
    def __init__(self, key, store, program, jobs, starts_ten, **guarantees):
        """`key`: for the command line; `store`: postgres or sqlite; `program`: the words that install.py resolves;
        `jobs`: drained by default; `starts_ten`: a text for the table where there is no such measurement, else None."""
        self.key, self.store, self.program, self.jobs = key, store, program, jobs
        self.starts_ten_instead = starts_ten
        self.notes = guarantees.pop('notes')
        self.guarantees = {name: guarantees[name] for name in GUARANTEES}

    @property
    def base(self):
        """The key of the run of weir that this one is compared with."""
        return 'weir' if self.store == 'postgres' else 'weir-sqlite'


WEIR_GUARANTEES = {
    'cap': 'exact, any number',
    'fairness': 'weighted turns',
    'history': 'every execution',
    'fencing': 'yes',
    'notes': '70 % of the workspaces have a cap of 1, 20 % of 5, 10 % of 20; one step of each execution is on record.',
}

PEERS = [
    Peer('weir', 'postgres', ('weir',), 200000, None, **WEIR_GUARANTEES),
    Peer('graphile-worker-batched', 'postgres', ('node', 'graphile_worker.mjs', 'batched'), 200000, None,
         cap='1, named queues', fairness='none', history='failed jobs only', fencing='none',
         notes='A tenant is a named queue, which runs one job at a time; there is no other cap. Jobs are deleted when they '
               'succeed (docs: Scaling tips). completeJobs() deletes by id alone (sql/completeJobs).'),
    Peer('graphile-worker-tuned', 'postgres', ('node', 'graphile_worker.mjs', 'tuned'), 200000, None,
         cap='1, named queues', fairness='none', history='failed jobs only', fencing='none',
         notes='As above, with a larger local queue, for which its documentation publishes no figures.'),
    Peer('graphile-worker', 'postgres', ('node', 'graphile_worker.mjs', 'default'), 20000, None,
         cap='1, named queues', fairness='none', history='failed jobs only', fencing='none',
         notes='As batched, with the default settings: each job is fetched and completed by itself.'),
    Peer('pg-boss', 'postgres', ('node', 'pg_boss.mjs'), 100000, None,
         cap='soft, any number', fairness='none', history='7 days', fencing='yes',
         notes='groupConcurrency may be exceeded for a moment when workers fetch at the same time (docs: Workers). '
               'Ends are fenced by the number of the attempt (plans.js, attemptFence()).'),
    Peer('river', 'postgres', ('river',), 100000, None,
         cap='none; per client', fairness='none', history='24 hours', fencing='none',
         notes='Limits over all clients are part of River Pro. The nearest in the free version: a queue for each tenant, '
               'MaxWorkers 1, which is a limit of each client. Ends require the state running, not the attempt.'),
    Peer('procrastinate', 'postgres', ('python', 'procrastinate_peer.py'), 4000, None,
         cap='1, locks', fairness='none', history='every job', fencing='none',
         notes='A tenant is a lock, which runs one job at a time, in order. Ends require the state todo or doing, not the '
               'attempt (procrastinate_finish_job_v1).'),
    Peer('weir-sqlite', 'sqlite', ('weir',), 200000, None, **WEIR_GUARANTEES),
    Peer('huey', 'sqlite', ('python', 'huey_peer.py'), 20000, 'no caps',
         cap='none', fairness='none', history='none', fencing='none',
         notes='A task leaves the file before it runs: a task that runs in a consumer that dies is lost.'),
]
BY_KEY = {peer.key: peer for peer in PEERS}
BASES = ('weir', 'weir-sqlite')
