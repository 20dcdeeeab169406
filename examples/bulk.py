"""Bulk work: a workflow that starts one execution for each item, at most three at once, and adds up their results.

    python -c 'import bulk; bulk.everything.publish()'
    weir worker bulk                                      # runs the functions
    weir enqueue -w acme bulk-py --wait

The parent uses no slot while its children run, so a workspace with one slot is enough. bulk.c is the same in C.
"""

import weir
from weir import define


@weir.workflow(name='bulk-item-py')
def work(number: int):
    return number * number


@weir.workflow(name='bulk-split-py')
def split():
    return list(range(1, 11))


@weir.workflow(name='bulk-sum-py')
def add_up(numbers: list):
    return {'total': sum(numbers)}


everything = define.Definition('bulk-py')
everything.step('split', define.handler(split))
everything.step(
    'each',
    define.start(work, {'number': '${.item}'}, for_each='${.steps.split.output}', max_parallel=3),
    needs='split',
    timeout='1h',
)
everything.step('sum', define.handler(add_up, input={'numbers': '${[.steps.each.output[].output]}'}), needs='each')
