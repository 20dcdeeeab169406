/* Shared by the two parts of the binding: _weir.c has the module and Store, _node.c has Node and Call. */
#ifndef WEIR_CLIENTS_PYTHON_SRC_WEIR__BINDING_H
#define WEIR_CLIENTS_PYTHON_SRC_WEIR__BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include "weir/weir.h"

#define METHOD(name, function, flags)                                                                                      \
    {                                                                                                                      \
        name, (PyCFunction)(void (*)(void))(function), flags, NULL                                                         \
    }

struct store {
    PyObject_HEAD struct weir *weir; /* NULL = closed */
    PyObject *on_event;
    Py_ssize_t users; /* calls under way and nodes; the last one closes a store that shall be closed */
    bool is_to_close;
    struct problem_note *note; /* NULL when the program has its own function for events */
};

/* The last warning or error of the store and its nodes. The library's threads write it without the interpreter's lock, for
 * which a blocked interpreter would let them wait beyond their lease. */
struct problem_note *problem_note_new(void);
void problem_note_free(struct problem_note *note);
void problem_note_event(void *context, const struct weir_event *event);
/* (level, text, how many since the last call), or None. `note`: may be NULL. */
PyObject *problem_note_take(struct problem_note *note);

extern PyTypeObject *store_type;
extern PyTypeObject *call_type;
extern PyType_Spec node_spec;
extern PyType_Spec call_spec;

/* Both return NULL. */
PyObject *raise_error(enum weir_status status, const struct weir_error *error);
PyObject *raise_misuse(const char *message);
/* The library's store for one call or one node, until store_leave(); or NULL with an error. */
struct weir *store_enter(struct store *self);
void store_leave(struct store *self);

#endif
