/* A doubly linked list under one lock. The socket of an entry stays open while the entry is in the list, so shutdown()
 * never meets a descriptor that already belongs to something else. An entry is cut once: its deadline is then gone. */
#include "server/connection_list.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"

void connection_list_init(struct connection_list *list)
{
    INVARIANT(list != NULL);
    *list = (struct connection_list){.first = NULL};
    (void)pthread_mutex_init(&list->lock, NULL);
}

struct connection_entry *connection_list_add(struct connection_list *list, int fd, int64_t due_us)
{
    struct connection_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return NULL;
    }
    entry->fd = fd;
    atomic_init(&entry->due_us, due_us);
    atomic_init(&entry->slow_us, TIME_NEVER);
    (void)pthread_mutex_lock(&list->lock);
    entry->next = list->first;
    if (list->first != NULL) {
        list->first->before = entry;
    }
    list->first = entry;
    list->count++;
    (void)pthread_mutex_unlock(&list->lock);
    return entry;
}

void connection_list_remove(struct connection_list *list, struct connection_entry *entry)
{
    (void)pthread_mutex_lock(&list->lock);
    INVARIANT(list->count > 0);
    if (entry->before != NULL) {
        entry->before->next = entry->next;
    } else {
        list->first = entry->next;
    }
    if (entry->next != NULL) {
        entry->next->before = entry->before;
    }
    list->count--;
    (void)pthread_mutex_unlock(&list->lock);
    free(entry);
}

/* A shut socket is closed by the library as if the client had gone. */
size_t connection_list_cut(struct connection_list *list, int64_t now_us, bool is_short)
{
    size_t cut = 0;
    (void)pthread_mutex_lock(&list->lock);
    for (struct connection_entry *entry = list->first; entry != NULL; entry = entry->next) {
        if (atomic_load(&entry->due_us) <= now_us || (is_short && atomic_load(&entry->slow_us) <= now_us)) {
            atomic_store(&entry->due_us, TIME_NEVER);
            atomic_store(&entry->slow_us, TIME_NEVER);
            (void)shutdown(entry->fd, SHUT_RDWR);
            cut++;
        }
    }
    (void)pthread_mutex_unlock(&list->lock);
    return cut;
}

void connection_list_close(struct connection_list *list)
{
    INVARIANT(list != NULL && list->first == NULL && list->count == 0);
    (void)pthread_mutex_destroy(&list->lock);
}
