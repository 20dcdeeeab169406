/* Warnings and errors of a store and its nodes, for a worker that logs them: the last one, and how many there were.
 *
 * An event comes in a thread of the library. The worker asks now and then, so a store that is away makes few lines.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_binding.h"

enum { TEXT_BYTES = 1024 };

struct problem_note {
    pthread_mutex_t lock;
    enum weir_event_level level;
    long long count;
    char text[TEXT_BYTES];
};

struct problem_note *problem_note_new(void)
{
    struct problem_note *note = calloc(1, sizeof *note);
    if (note != NULL && pthread_mutex_init(&note->lock, NULL) != 0) {
        free(note);
        return NULL;
    }
    return note;
}

void problem_note_free(struct problem_note *note)
{
    if (note != NULL) {
        (void)pthread_mutex_destroy(&note->lock);
        free(note);
    }
}

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

void problem_note_event(void *context, const struct weir_event *event)
{
    struct problem_note *note = context;
    if (event->level < WEIR_EVENT_WARN) {
        return;
    }
    (void)pthread_mutex_lock(&note->lock);
    note->count++;
    if (event->level >= note->level) {
        note->level = event->level;
        (void)snprintf(note->text, sizeof note->text, "%s: %s%s%s%s%s%s%s", event->name, event->message,
                       event->execution_id == NULL ? "" : ", ", or_empty(event->execution_id),
                       event->code == NULL ? "" : ": ", or_empty(event->code), event->error == NULL ? "" : ": ",
                       or_empty(event->error));
    }
    (void)pthread_mutex_unlock(&note->lock);
}

PyObject *problem_note_take(struct problem_note *note)
{
    if (note == NULL) {
        Py_RETURN_NONE;
    }
    char text[TEXT_BYTES];
    (void)pthread_mutex_lock(&note->lock);
    long long count = note->count;
    int level = (int)note->level;
    (void)snprintf(text, sizeof text, "%s", note->text);
    note->count = 0;
    note->level = WEIR_EVENT_DEBUG;
    (void)pthread_mutex_unlock(&note->lock);
    if (count == 0) {
        Py_RETURN_NONE;
    }
    PyObject *words =
        PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); /* it may be cut within a character */
    return words == NULL ? NULL : Py_BuildValue("(iNL)", level, words, count);
}
