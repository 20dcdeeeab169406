"""What workers of the campaign run; campaign.js is the same for Node. No attempt fails by itself."""

import asyncio
import time

from faulty import note

import weir

RETRY = {'attempts': 50, 'backoff': '1ms'}


def begin_and_end(ctx, ms):
    note('begin', ctx)
    yield ms / 1000
    note('end', ctx)


@weir.workflow(name='works', retry=RETRY)
def works(ms: int, *, ctx):
    for seconds in begin_and_end(ctx, ms):
        time.sleep(seconds)
    return ctx.attempt


@weir.workflow(name='works-async', retry=RETRY)
async def works_async(ms: int, *, ctx):
    for seconds in begin_and_end(ctx, ms):
        await asyncio.sleep(seconds)
    return ctx.attempt
