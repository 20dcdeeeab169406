/* The facts of each event type, and the bus that passes an event to its subscribers.
 *
 * Names and levels come from EVENT_LIST, so no type can be without them. Subscribers are called one after the other in the
 * emitter's thread, in the order of their subscription. The bus has no lock: subscriptions come before the first event. It
 * allocates nothing, and an emission never fails. A subscription fails when EVENT_SUBSCRIBERS_MAX are there.
 */
#include "observe/event.h"

#include "base/error.h"

static const struct {
    const char *name;
    enum event_level level;
} event_facts[] = {
#define EVENT_FACTS(id, name, level) [id] = {name, level},
    EVENT_LIST(EVENT_FACTS)
#undef EVENT_FACTS
};

const char *event_name(enum event_type type)
{
    INVARIANT((unsigned)type < EVENT_TYPE_COUNT);
    return event_facts[type].name;
}

enum event_level event_level(enum event_type type)
{
    INVARIANT((unsigned)type < EVENT_TYPE_COUNT);
    return event_facts[type].level;
}

const char *event_level_name(enum event_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    INVARIANT((unsigned)level < sizeof names / sizeof names[0]);
    return names[level];
}

int event_subscribe(struct event_bus *bus, event_subscriber *function, void *context)
{
    INVARIANT(bus != NULL && function != NULL && bus->count <= EVENT_SUBSCRIBERS_MAX);
    if (bus->count == EVENT_SUBSCRIBERS_MAX) {
        return 0;
    }
    bus->subscribers[bus->count].function = function;
    bus->subscribers[bus->count].context = context;
    bus->count++;
    return 1;
}

void event_emit(struct event_bus *bus, const struct event *event)
{
    INVARIANT(event != NULL && (unsigned)event->type < EVENT_TYPE_COUNT);
    if (bus == NULL) {
        return;
    }
    for (size_t i = 0; i < bus->count; i++) {
        bus->subscribers[i].function(bus->subscribers[i].context, event);
    }
}
