#!/usr/bin/env python3
"""Short campaigns of postgres_chaos.py. `./dev check campaigns` runs longer ones, which together with crash_test.py on
PostgreSQL kill more than 200 nodes; `./dev check chaos` goes on for as long as it is told.

usage: postgres_chaos_test.py BINARY [TEST ...]      WEIR_TEST_SEED replays the choice of faults
"""

import sys

import crash_test
from crash_test import SEED
from harness import LONG_CAMPAIGNS, run_tests
from postgres_chaos import FAULTS, Campaign
from postgres_server import PostgresServer

KILLS = 160 if LONG_CAMPAIGNS else 40
DECK = FAULTS if LONG_CAMPAIGNS else {**dict.fromkeys(FAULTS, 1), 'kill': 3}
SERVER = None


def _server():
    global SERVER
    SERVER = SERVER or PostgresServer(on_disk=True)
    return SERVER


def _run(campaign, goes_on):
    try:
        while goes_on(campaign.count):
            campaign.wave()
        campaign.end()
    finally:
        campaign.close()
    for line in campaign.summary():
        print(f'# {line}', flush=True)


def nodes_are_killed_under_load(weir):
    campaign = Campaign(weir, _server(), SEED, nodes=10, faults={'kill': 1}, most_at_once=9)
    _run(campaign, lambda count: count['nodes killed'] < KILLS)
    assert campaign.count['runs cut short'] > 0, 'no node was at work when it was killed'


def every_fault_comes_at_least_once_under_load(weir):
    campaign = Campaign(weir, _server(), SEED + 1, faults=DECK)
    _run(campaign, lambda count: count['waves'] < sum(DECK.values()))
    for what in ('nodes killed', 'nodes paused beyond the lease', 'links cut', 'links half open', 'server killed',
                 'server shut down at once', 'server restarted'):
        assert campaign.count[what] > 0, f'{what}: none'


if __name__ == '__main__':
    crash_test.POSTGRES = True
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
