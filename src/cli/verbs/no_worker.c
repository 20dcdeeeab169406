/* The sentences about handlers that no live node of a group has.
 *
 * The store names the missing handlers, the live nodes of the group, and the node that had all handlers last
 * (store_why() in store.h). This file makes a sentence of them, and chooses the command that starts a worker: it
 * follows from the language of the last one. Texts of the store are made safe before they are printed. A long list of names
 * is cut, and says so. It reads nothing itself. One thread.
 */
#include "cli/verbs/no_worker.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/output/json_fields.h"

enum { NAMES_TEXT_MAX = 200 };

bool lacks_worker(const json_t *row)
{
    return json_array_size(json_object_get(row, "handlers_missing")) > 0;
}

/* "a, b and others" */
static void join_names(struct output *output, const json_t *names, char text[NAMES_TEXT_MAX])
{
    size_t i;
    json_t *name;
    size_t used = 0;
    text[0] = '\0';
    json_array_foreach(names, i, name)
    {
        const char *safe = output_safe(output, json_string_value(name));
        if (used + strlen(safe) + sizeof ",  and others" > NAMES_TEXT_MAX) {
            (void)snprintf(text + used, NAMES_TEXT_MAX - used, " and others");
            return;
        }
        used += (size_t)snprintf(text + used, NAMES_TEXT_MAX - used, "%s%s", i == 0 ? "" : ", ", safe);
    }
}

void worker_text(struct output *output, const json_t *row, int64_t now_us, char text[WORKER_TEXT_MAX])
{
    INVARIANT(row != NULL && text != NULL);
    char names[NAMES_TEXT_MAX];
    const char *group = field_text(output, row, "executor_group");
    const char *last = field_text(output, row, "last_worker");
    const char *language = field_text(output, row, "last_worker_language");
    const json_t *missing = json_object_get(row, "handlers_missing");
    bool is_one = json_array_size(missing) == 1;
    join_names(output, missing, names);
    int length =
        snprintf(text, WORKER_TEXT_MAX, "no live node of group %s has the handler%s %s", group, is_one ? "" : "s", names);
    if (length <= 0 || length >= WORKER_TEXT_MAX) {
        return;
    }
    size_t used = (size_t)length;
    if (last == NULL) {
        (void)snprintf(text + used, WORKER_TEXT_MAX - used, "; no node on record had %s", is_one ? "it" : "them");
        return;
    }
    const char *since = field_text(output, row, "no_worker_since");
    (void)snprintf(text + used, WORKER_TEXT_MAX - used, "; %s (%s) had %s last, seen %s", last,
                   language != NULL ? language : "C", is_one ? "it" : "them", output_ago(output, since, now_us));
}

const char *worker_command(const json_t *row)
{
    INVARIANT(row != NULL);
    const char *language = json_string_value(json_object_get(row, "last_worker_language"));
    if (language != NULL && strncmp(language, "python", strlen("python")) == 0) {
        return "weir worker APP (Python)";
    }
    if (language != NULL && strncmp(language, "node", strlen("node")) == 0) {
        return "npx weir worker APP";
    }
    return "start the program that has the handlers; `weir worker list` shows those that run";
}
