"""weir in a project of Django: add 'weir.django' to INSTALLED_APPS.

The store is the database of the project (DATABASES['default'], PostgreSQL or a SQLite file) unless settings say otherwise:

    WEIR = {
        'STORE': 'postgres://...',   # another store
        'USING': 'default',          # the alias of the database whose transactions enqueue() takes part in
        'MIGRATE': True,             # `manage.py migrate` also makes or upgrades the store, and publishes the workflows
    }

Inside transaction.atomic() enqueue() takes part in the transaction. `manage.py weir_worker` runs the functions of the
modules `workflows` of all installed apps. `manage.py weir ...` is the command `weir` on the same store.
"""
