/* The text of a target for messages and lists.
 *
 * A target inside of the node is its engine's name alone. Any other one names service, namespace and address. The SQL
 * function target_text() of the PostgreSQL store makes the same text. A pure function, callable in any thread.
 */
#include "queue/engine_target.h"

#include <stdio.h>

#include "base/error.h"
#include "base/text.h"

void engine_target_text(const struct engine_target *target, char *to)
{
    INVARIANT(target != NULL && to != NULL);
    if (target->service[0] == '\0') {
        text_copy(to, TARGET_TEXT_MAX, target->engine);
        return;
    }
    (void)snprintf(to, TARGET_TEXT_MAX, "%s, namespace %s (%s) at %s", target->engine, target->namespace_name,
                   target->service, target->address);
}
