/* The log events of docs/metrics.md: each has its level and its text. */
#include <stdio.h>

#include "observe/log.h"
#include "support/test.h"

/* The key log events of four parts: 1 dispatcher, 2 processor, 3 flow, 4 queue. The texts are without the numbers in them.
 * One text may be in several parts, and then has one event. */
static const struct {
    const char *source;
    const char *text;
    enum event_level level;
    enum event_type event;
    /* The text of the event where it is another one: an execution may run in an engine that is not Temporal. */
    const char *our_text;
} rows[] = {
    {"1:247 3:493", "Processing queue items", EVENT_DEBUG, EVENT_BATCH_CLAIMED, NULL},
    {"1:248 3:499", "Recovered stale queue items", EVENT_INFO, EVENT_ITEMS_RECOVERED, NULL},
    {"2:306 3:494", "Workspace at capacity", EVENT_INFO, EVENT_WORKSPACE_AT_CAPACITY, NULL},
    {"2:307 3:495", "Dispatching queue item", EVENT_INFO, EVENT_EXECUTION_DISPATCHING, NULL},
    {"2:308 3:496", "Dispatched execution", EVENT_INFO, EVENT_EXECUTION_DISPATCHED, NULL},
    {"2:309 3:497", "Failed to start Temporal workflow", EVENT_ERROR, EVENT_DISPATCH_FAILED, "Failed to start workflow"},
    {"2:310 3:498", "Error processing queue item", EVENT_ERROR, EVENT_EXECUTION_RETRYING, NULL},
    {"2:311", "Workspace not found", EVENT_WARN, EVENT_WORKSPACE_NOT_FOUND, NULL},
    /* An item and its execution are one row here: a retry finds neither, and its record changes nothing. */
    {"2:312", "Execution not found for retry", EVENT_WARN, EVENT_STALE_WRITE_REFUSED, "A late writer changed nothing"},
    {"4:326", "Enqueueing workflow", EVENT_INFO, EVENT_EXECUTION_ENQUEUEING, NULL},
    {"4:327", "Enqueued execution", EVENT_INFO, EVENT_EXECUTION_ENQUEUED, NULL},
    {"4:328", "Recovering stale items", EVENT_WARN, EVENT_ITEMS_RECOVERING, NULL},
};

static void each_event_has_the_documented_level_and_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = rows[i].our_text == NULL ? rows[i].text : rows[i].our_text;
        if (event_level(rows[i].event) != rows[i].level || strcmp(log_message(rows[i].event), text) != 0) {
            fail_msg("%s: \"%s\" is to be %s, and \"%s\" (%s) is %s", rows[i].source, text, event_level_name(rows[i].level),
                     log_message(rows[i].event), event_name(rows[i].event), event_level_name(event_level(rows[i].event)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_has_the_documented_level_and_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
