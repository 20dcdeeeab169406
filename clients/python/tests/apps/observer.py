"""A worker of it has nothing to run: it observes the leases of the others."""

import weir


@weir.workflow(name='nothing')
def nothing():
    return None
