/* The schedules that a publication adds, changes or deletes, as every surface names them.
 *
 * A driver notes each of them in the order in which it changes them. The command line and the server print the same three
 * lists, so that a schedule which a new text leaves out does not go without a word. Runs in the caller's thread.
 */
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "definition/definition.h"
#include "store/schedules.h"
#include "store/settings.h"

_Static_assert((int)PUBLISHED_SCHEDULES_MAX >= 2 * (int)DEFINITION_SCHEDULES_MAX, "all are new, and all others go");
_Static_assert((int)PUBLISHED_NAME_MAX == (int)SCHEDULE_NAME_MAX, "a name fits");

static const char *const published_change_keys[PUBLISHED_CHANGES] = {[SCHEDULE_ADDED] = "schedules_added",
                                                                     [SCHEDULE_CHANGED] = "schedules_changed",
                                                                     [SCHEDULE_DELETED] = "schedules_deleted"};

const char *published_change_key(enum published_change change)
{
    INVARIANT((unsigned)change < PUBLISHED_CHANGES);
    return published_change_keys[change];
}

void published_add(struct published *published, enum published_change change, const char *name)
{
    INVARIANT(published != NULL && name != NULL);
    if (published->schedule_count < PUBLISHED_SCHEDULES_MAX) {
        struct published_schedule *schedule = &published->schedules[published->schedule_count++];
        schedule->change = change;
        text_copy(schedule->name, sizeof schedule->name, name);
    }
}

void published_add_all(struct published *published, enum published_change change, const json_t *names)
{
    size_t i;
    const json_t *name;
    INVARIANT(published != NULL);
    json_array_foreach(names, i, name)
    {
        published_add(published, change, json_is_string(name) ? json_string_value(name) : "");
    }
}

bool published_put_schedules(const struct published *published, json_t *object)
{
    INVARIANT(published != NULL && object != NULL);
    bool is_fine = true;
    for (int change = 0; change < PUBLISHED_CHANGES && is_fine; change++) {
        json_t *names = json_array();
        for (size_t i = 0; i < published->schedule_count && names != NULL && is_fine; i++) {
            const struct published_schedule *schedule = &published->schedules[i];
            if ((int)schedule->change == change) {
                is_fine = json_array_append_new(names, json_string(schedule->name)) == 0;
            }
        }
        is_fine = json_object_set_new(object, published_change_keys[change], names) == 0 && is_fine;
    }
    return is_fine;
}
