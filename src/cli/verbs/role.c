/* The scheduler's role as a sentence, for status, top, node list and doctor.
 *
 * It reads one object of store_status() and makes no call. The first rule that applies gives the health. No node has
 * the role, or no round of its node succeeds; its node awaits the lock of dispatch.exclusive; the role moves too often;
 * the books are behind. If none applies, all is well. The time since the role is free comes from the row: `since` when
 * the node left it, the end of the lease when the node is still named there. Pure; one thread.
 */
#include "cli/verbs/role.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/output/json_fields.h"

enum { ROLE_TEXT_MAX = 1024 };

enum role_health role_health(const json_t *scheduler)
{
    if (field_is_true(scheduler, "is_free")) {
        return ROLE_IS_FREE;
    }
    if (json_is_string(json_object_get(scheduler, "failing_since"))) {
        return ROLE_FAILS;
    }
    if (json_is_string(json_object_get(scheduler, "lock_awaited_since"))) {
        return ROLE_AWAITS_LOCK;
    }
    if (field_number(scheduler, "takeovers_hour", 0) > ROLE_MOVES_HOUR) {
        return ROLE_MOVES;
    }
    return field_number(scheduler, "lag_us", 0) > ROLE_BEHIND_US ? ROLE_IS_BEHIND : ROLE_IS_FINE;
}

/* A node that left the role made it free at `taken_at`. A node that still stands in the row lost it when its lease
 * ended, or before, when its process was found to be gone. In the second case the row shows no time, so the role counts
 * as free from now on. */
int64_t role_free_us(const json_t *scheduler, int64_t now_us)
{
    bool has_name = json_is_string(json_object_get(scheduler, "node"));
    int64_t from_us = field_time(scheduler, has_name ? "expires_at" : "taken_at", now_us);
    return !field_is_true(scheduler, "is_free") || from_us == 0 || from_us > now_us ? 0 : now_us - from_us;
}

/* Since when and why no round of a node succeeds. Nothing when no node reports a failure. */
static void append_failure(struct output *output, const json_t *scheduler, int64_t now_us, const char *what, char *to,
                           size_t size)
{
    const char *since = json_string_value(json_object_get(scheduler, "failing_since"));
    size_t length = strlen(to);
    if (since != NULL) {
        (void)snprintf(to + length, size - length, "%s for %s: %s", what, output_age(output, since, now_us),
                       field_error(output, scheduler, "error"));
    }
}

/* The sentence for a role that no node has. */
static void describe_free_role(struct output *output, const json_t *scheduler, int64_t now_us, char *to, size_t size)
{
    char lasted[DURATION_TEXT_MAX];
    const char *node = field_text(output, scheduler, "node");
    int64_t free_us = role_free_us(scheduler, now_us);
    duration_format_short(free_us, lasted);
    if (field_number(scheduler, "epoch", 0) == 0) {
        text_copy(to, size, "none yet");
    } else if (node == NULL) {
        (void)snprintf(to, size, "none for %s: the last scheduler has left the role", lasted);
    } else if (free_us > 0) {
        (void)snprintf(to, size, "none for %s: the lease of %s is over", lasted, node);
    } else {
        (void)snprintf(to, size, "none: %s has ended or is dead", node);
    }
    append_failure(output, scheduler, now_us, "; a live node has failed to take it", to, size);
}

/* The sentence for a node that has the role and, with dispatch.exclusive, waits for another holder of the lock. */
static void describe_awaited_lock(struct output *output, const json_t *scheduler, int64_t now_us, char *to, size_t size)
{
    const char *node = field_text(output, scheduler, "node");
    const char *holder = field_text(output, scheduler, "lock_holder");
    const char *awaited = json_string_value(json_object_get(scheduler, "lock_awaited_since"));
    int length = snprintf(to, size, "%s has dispatch.exclusive and awaits its lock processExecutionQueue for %s",
                          node != NULL ? node : "-", output_age(output, awaited, now_us));
    if (length > 0 && (size_t)length < size && holder != NULL) {
        (void)snprintf(to + length, size - (size_t)length, ", held by %s until %s", holder,
                       field_text(output, scheduler, "lock_until"));
    }
}

const char *role_text(struct output *output, const json_t *scheduler, int64_t now_us)
{
    char text[ROLE_TEXT_MAX];
    char behind[DURATION_TEXT_MAX];
    if (field_is_true(scheduler, "is_free")) {
        describe_free_role(output, scheduler, now_us, text, sizeof text);
        return output_safe(output, text);
    }
    if (role_health(scheduler) == ROLE_AWAITS_LOCK) {
        describe_awaited_lock(output, scheduler, now_us, text, sizeof text);
        return output_safe(output, text);
    }
    const char *node = field_text(output, scheduler, "node");
    if (role_health(scheduler) == ROLE_FAILS) {
        (void)snprintf(text, sizeof text, "%s has the role, and its rounds have failed", node != NULL ? node : "-");
        append_failure(output, scheduler, now_us, "", text, sizeof text);
        return output_safe(output, text);
    }
    int64_t lag_us = field_number(scheduler, "lag_us", 0);
    duration_format_short(lag_us, behind);
    (void)snprintf(text, sizeof text, "%s for %s, epoch %" PRId64 ", books %s%s", node != NULL ? node : "-",
                   output_age(output, json_string_value(json_object_get(scheduler, "taken_at")), now_us),
                   field_number(scheduler, "epoch", 0), lag_us > 0 ? behind : "current", lag_us > 0 ? " behind" : "");
    return output_safe(output, text);
}
