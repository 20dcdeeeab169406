"""A worker with the official SDK, as a user would write one. Every run of a workflow writes a line into the file of
records: "workflow_id run_id". Runs until its standard input ends.

usage: temporal_worker.py ADDRESS NAMESPACE TASK_QUEUE RECORDS [codec]      (with the Python of tools/install_temporal.sh)
With `codec`, all payloads and the words of failures go through the codec of temporal_codec.py.
"""

import asyncio
import os
import sys
from datetime import timedelta

from temporal_codec import ENCODING, turn_over
from temporalio import activity, converter, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

RECORDS = sys.argv[4]


@activity.defn
async def record() -> None:
    info = activity.info()
    with open(RECORDS, 'a') as file:
        file.write(f'{info.workflow_id} {info.workflow_run_id}\n')


@activity.defn
async def break_down() -> None:
    raise ApplicationError('the card was declined', type='CardDeclined', non_retryable=True)


async def note_run():
    await workflow.execute_local_activity(record, start_to_close_timeout=timedelta(seconds=30))


@workflow.defn
class Noop:
    @workflow.run
    async def run(self, given: dict) -> dict:
        await note_run()
        return {'given': given}


@workflow.defn
class Fail:
    @workflow.run
    async def run(self, given: dict) -> None:
        await note_run()
        await workflow.execute_activity(break_down, start_to_close_timeout=timedelta(seconds=30))


@workflow.defn
class Slow:
    @workflow.run
    async def run(self, given: dict) -> str:
        await note_run()
        await workflow.sleep(given.get('seconds', 1))
        return 'slept'


@workflow.defn
class Signalled:
    def __init__(self):
        self.word = None

    @workflow.run
    async def run(self, given: dict) -> dict:
        await note_run()
        await workflow.wait_condition(lambda: self.word is not None)
        return {'word': self.word}

    @workflow.signal
    def go(self, word: dict) -> None:
        self.word = word

    @workflow.query
    def has_word(self, given: dict) -> dict:
        return {'given': given, 'has': self.word is not None}

    @workflow.update
    async def change(self, given: dict) -> dict:
        if given.get('fails'):
            raise ApplicationError('not today', type='NotToday')
        if given.get('waits'):
            await workflow.wait_condition(lambda: self.word is not None)
        return {'changed': given}


@workflow.defn
class Chain:
    @workflow.run
    async def run(self, given: dict) -> dict:
        await note_run()
        if given['left'] > 0:
            workflow.continue_as_new({'left': given['left'] - 1})
        return {'left': 0}


@workflow.defn
class Renewed:
    """Goes on at once as a run with a memo of its own, which waits for a signal."""

    def __init__(self):
        self.word = None

    @workflow.run
    async def run(self, given: dict) -> dict:
        await note_run()
        if not given.get('renewed'):
            workflow.continue_as_new({'renewed': True}, memo={'own': 'memo'})
        await workflow.wait_condition(lambda: self.word is not None)
        return {'word': self.word}

    @workflow.signal
    def go(self, word: dict) -> None:
        self.word = word


@workflow.defn
class Retried:
    @workflow.run
    async def run(self, given: dict) -> dict:
        await note_run()
        if workflow.info().attempt < 3:
            raise ApplicationError('not yet', type='NotYet')
        return {'attempt': workflow.info().attempt}


@workflow.defn
class Several:
    """Takes two arguments."""

    @workflow.run
    async def run(self, order: int, lines: list) -> dict:
        await note_run()
        return {'order': order, 'lines': lines}


@workflow.defn
class Big:
    @workflow.run
    async def run(self, given: dict) -> str:
        await note_run()
        return 'x' * given['bytes']


class Codec(converter.PayloadCodec):
    async def encode(self, payloads):
        return [Payload(metadata={'encoding': ENCODING}, data=turn_over(payload.SerializeToString()))
                for payload in payloads]

    async def decode(self, payloads):
        return [Payload.FromString(turn_over(payload.data)) if payload.metadata.get('encoding') == ENCODING else payload
                for payload in payloads]


def data_converter():
    if sys.argv[5:] != ['codec']:
        return converter.DataConverter.default
    return converter.DataConverter(payload_codec=Codec(),
                                   failure_converter_class=converter.DefaultFailureConverterWithEncodedAttributes)


async def main():
    client = await Client.connect(sys.argv[1], namespace=sys.argv[2], data_converter=data_converter())
    worker = Worker(client, task_queue=sys.argv[3], workflows=[Noop, Fail, Slow, Signalled, Chain, Renewed, Retried,
                                                                         Several, Big],
                    activities=[record, break_down], workflow_runner=UnsandboxedWorkflowRunner())
    running = asyncio.create_task(worker.run())  # it ends by itself when the service was away for too long
    print('ready', flush=True)
    end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([running, end], return_when=asyncio.FIRST_COMPLETED)


if __name__ == '__main__':
    try:
        asyncio.run(main())
    finally:
        os._exit(0)  # the SDK's native part may abort when the interpreter takes it down
