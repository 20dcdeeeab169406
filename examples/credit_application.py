"""A credit application as a class: each method is a state, and its answer decides which one follows.

    weir worker credit_application                        # runs the methods
    python -c 'import credit_application as c; print(c.CreditApplication.enqueue("acme", amount=4000))'
    weir update ID --state accept --var limit=5000        # the person who decides

credit_application.c is the same in C.
"""

import weir

AMOUNT_MOST = 10_000


@weir.states('credit-application-py', on_error='problem', variables={'amount': 'integer', 'limit': 'integer'})
class CreditApplication:
    @weir.state(next=['preview', 'reject'])
    def create(self, ctx):
        ctx.variables['amount'] = ctx.params['amount']
        return 'reject' if ctx.variables['amount'] > AMOUNT_MOST else 'preview'

    preview = weir.manual(next=['accept', 'reject'])

    @weir.state()
    def accept(self, ctx):
        return 'grant' if 'limit' in ctx.variables else 'reject'

    @weir.state(retry={'attempts': 3, 'backoff': '100ms'}, on_failure='problem')
    def grant(self, ctx):
        ctx.log(f'asks the bank with the key {ctx.idempotency_key}')
        return 'finish'

    @weir.state()
    def finish(self, ctx):
        return weir.Done({'granted': ctx.variables['limit']})

    @weir.state()
    def reject(self):
        return 'done'

    done = weir.end()
    problem = weir.manual()
