/* The set of tokens, its look-up and its limits.
 *
 * 1. The hash of the secret is computed first, without the lock.
 * 2. Its first 8 bytes find the place in the sorted set. An attacker cannot choose them without breaking SHA-256, so the
 *    time of the search reveals nothing of another token.
 * 3. All 32 bytes are compared in constant time, also when no token has those first 8: with a hash that nobody has.
 * 4. The rate is checked, the use is noted, and the facts of the token are copied for the request. So a refresh may free
 *    the set at any time.
 *
 * A refresh builds a new set beside the old one and takes over the counters of the tokens that stay. Only the exchange of
 * the two happens under the lock. Nothing here makes a decision by the wall clock: an expiry is compared with the time of
 * the store, which goes on with the boot clock between two reads. */
#include "server/access.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"

enum { FAILURE_SLOTS = 1024, SET_BYTES_MAX = 256 * 1024 * 1024 };

struct entry {
    struct token token;
    uint64_t prefix; /* the first bytes of the hash */
    int64_t credit_us;
    int64_t credit_at_us;
    int64_t noted_at_us; /* boot clock; 0 = never */
    bool is_used;        /* since the last write of uses */
};

struct set {
    struct arena arena;
    struct entry *entries; /* by prefix */
    size_t count;
    int64_t store_us; /* store time at ... */
    int64_t boot_us;
};

struct access {
    struct access_options options;
    struct store *store; /* of the thread */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct set *set;
    bool has_had_tokens;
    bool is_ending;
    bool has_thread;
    pthread_t thread;
    int64_t misses_until_us; /* each read because of one takes ACCESS_MISS_US */
    uint64_t seed;
    int64_t failures_until_us[FAILURE_SLOTS];
};

static int64_t now_of(const struct access *access)
{
    return clock_boot(access->options.clock);
}

/* --- the set --- */

static uint64_t prefix_of(const unsigned char hash[TOKEN_HASH_BYTES])
{
    uint64_t prefix = 0;
    for (size_t i = 0; i < sizeof prefix; i++) {
        prefix = prefix << 8 | hash[i];
    }
    return prefix;
}

static int compare_by_prefix(const void *a, const void *b)
{
    uint64_t first = ((const struct entry *)a)->prefix;
    uint64_t second = ((const struct entry *)b)->prefix;
    return (first > second) - (first < second);
}

static void access_close_set(struct set *set)
{
    if (set != NULL) {
        arena_close(&set->arena);
        free(set);
    }
}

/* The first entry whose prefix is not less. */
static size_t find_prefix(const struct set *set, uint64_t prefix)
{
    size_t from = 0;
    size_t to = set->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (set->entries[middle].prefix < prefix) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

/* Step 3. At least one comparison is made. */
static struct entry *find_entry(struct set *set, const unsigned char hash[TOKEN_HASH_BYTES])
{
    static const unsigned char nobodys[TOKEN_HASH_BYTES];
    uint64_t prefix = prefix_of(hash);
    size_t i = set == NULL ? 0 : find_prefix(set, prefix);
    struct entry *found = NULL;
    if (set == NULL || i == set->count || set->entries[i].prefix != prefix) {
        (void)token_hash_equal(hash, nobodys);
        return NULL;
    }
    for (; i < set->count && set->entries[i].prefix == prefix; i++) {
        found = token_hash_equal(hash, set->entries[i].token.hash) ? &set->entries[i] : found;
    }
    return found;
}

/* The tokens that stay keep their counters. */
static void take_over_counters(struct set *old, struct set *new)
{
    for (size_t i = 0; i < new->count; i++) {
        struct entry *entry = &new->entries[i];
        const struct entry *before = find_entry(old, entry->token.hash);
        if (before != NULL) {
            entry->credit_us = before->credit_us;
            entry->credit_at_us = before->credit_at_us;
            entry->noted_at_us = before->noted_at_us;
            entry->is_used = before->is_used;
        }
    }
}

static enum weir_status access_read_set(struct access *access, struct store *store, struct set **ret_set, bool *ret_has_had,
                                        struct weir_error *error)
{
    struct token_set read = {.tokens = NULL};
    struct set *set = calloc(1, sizeof *set);
    if (set == NULL) {
        return error_out_of_memory(error);
    }
    arena_init(&set->arena, SET_BYTES_MAX);
    set->boot_us = now_of(access); /* before the read: an expiry may come early, never late */
    enum weir_status status = store_tokens_read(store, &set->arena, &read, error);
    if (status == WEIR_OK) {
        set->entries = arena_allocate(&set->arena, (read.count + 1) * sizeof *set->entries);
        status = set->entries == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    if (status != WEIR_OK) {
        access_close_set(set);
        return status;
    }
    set->store_us = read.now_us;
    set->count = read.count;
    for (size_t i = 0; i < read.count; i++) {
        set->entries[i] = (struct entry){.token = read.tokens[i],
                                         .prefix = prefix_of(read.tokens[i].hash),
                                         .credit_us = MICROSECONDS_PER_SECOND,
                                         .credit_at_us = set->boot_us};
    }
    qsort(set->entries, set->count, sizeof *set->entries, compare_by_prefix);
    *ret_has_had = read.has_had_tokens;
    *ret_set = set;
    return WEIR_OK;
}

enum weir_status access_refresh(struct access *access, struct store *store, struct weir_error *error)
{
    INVARIANT(access != NULL && store != NULL);
    struct set *set = NULL;
    bool has_had_tokens = false;
    enum weir_status status = access_read_set(access, store, &set, &has_had_tokens, error);
    if (status != WEIR_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&access->lock);
    struct set *old = access->set;
    bool is_later = old == NULL || set->boot_us >= old->boot_us; /* of two reads at a time the later one counts */
    if (is_later) {
        take_over_counters(old, set);
        access->set = set;
        access->has_had_tokens = access->has_had_tokens || has_had_tokens;
    }
    (void)pthread_mutex_unlock(&access->lock);
    access_close_set(is_later ? old : set);
    return WEIR_OK;
}

bool access_refresh_after_miss(struct access *access, struct store *store)
{
    struct weir_error ignored = {.status = WEIR_OK};
    (void)pthread_mutex_lock(&access->lock);
    int64_t now_us = now_of(access);
    int64_t from_us = time_later(access->misses_until_us, now_us);
    bool may = from_us - now_us <= (ACCESS_MISSES_MOST - 1) * ACCESS_MISS_US;
    access->misses_until_us = may ? from_us + ACCESS_MISS_US : access->misses_until_us;
    (void)pthread_mutex_unlock(&access->lock);
    return may && access_refresh(access, store, &ignored) == WEIR_OK;
}

/* The next refresh writes them. */
static void note_uses_again(struct access *access, const int64_t *ids, size_t count)
{
    (void)pthread_mutex_lock(&access->lock);
    for (size_t i = 0; access->set != NULL && i < access->set->count; i++) {
        for (size_t used = 0; used < count; used++) {
            struct entry *entry = &access->set->entries[i];
            entry->is_used = entry->is_used || entry->token.id == ids[used];
        }
    }
    (void)pthread_mutex_unlock(&access->lock);
}

enum weir_status access_write_uses(struct access *access, struct store *store, struct weir_error *error)
{
    INVARIANT(access != NULL && store != NULL);
    int64_t ids[TOKENS_USED_MOST];
    size_t count = 0;
    (void)pthread_mutex_lock(&access->lock);
    for (size_t i = 0; access->set != NULL && i < access->set->count && count < TOKENS_USED_MOST; i++) {
        struct entry *entry = &access->set->entries[i];
        if (entry->is_used) {
            ids[count++] = entry->token.id;
            entry->is_used = false;
        }
    }
    (void)pthread_mutex_unlock(&access->lock);
    enum weir_status status = count == 0 ? WEIR_OK : store_tokens_used(store, ids, count, error);
    if (status != WEIR_OK) {
        note_uses_again(access, ids, count);
    }
    return status;
}

/* --- open, start, close --- */

enum weir_status access_open(const struct access_options *options, struct access **ret_access, struct weir_error *error)
{
    INVARIANT(options != NULL && ret_access != NULL && options->rate >= 0);
    struct access *access = calloc(1, sizeof *access);
    struct random random;
    pthread_condattr_t attributes;
    if (access == NULL) {
        return error_out_of_memory(error);
    }
    access->options = *options;
    access->options.clock = options->clock == NULL ? clock_system() : options->clock;
    random_seed_from_system(&random);
    access->seed = random_next(&random);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&access->lock, NULL);
    (void)pthread_cond_init(&access->ended, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    *ret_access = access;
    return WEIR_OK;
}

/* A read or a write that fails is repeated a second later; the store reports its failures itself. */
static void *run_refresh_thread(void *context)
{
    struct access *access = context;
    struct weir_error ignored;
    (void)pthread_mutex_lock(&access->lock);
    while (!access->is_ending) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += ACCESS_REFRESH_SECONDS;
        (void)pthread_cond_timedwait(&access->ended, &access->lock, &until);
        (void)pthread_mutex_unlock(&access->lock);
        (void)(access_refresh(access, access->store, &ignored) == WEIR_OK);
        (void)(access_write_uses(access, access->store, &ignored) == WEIR_OK);
        (void)pthread_mutex_lock(&access->lock);
    }
    (void)pthread_mutex_unlock(&access->lock);
    return NULL;
}

enum weir_status access_start(struct access *access, const struct store *store, struct weir_error *error)
{
    INVARIANT(access != NULL && store != NULL && !access->has_thread);
    enum weir_status status = store_open_again(store, &access->store, error);
    if (status == WEIR_OK) {
        status = access_refresh(access, access->store, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    int native = thread_start(&access->thread, run_refresh_thread, access);
    access->has_thread = native == 0;
    return native == 0 ? WEIR_OK
                       : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for tokens: %s",
                                          strerror(native));
}

void access_close(struct access *access)
{
    if (access == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&access->lock);
    access->is_ending = true;
    (void)pthread_cond_signal(&access->ended);
    (void)pthread_mutex_unlock(&access->lock);
    if (access->has_thread) {
        (void)pthread_join(access->thread, NULL);
    }
    store_close(access->store);
    access_close_set(access->set);
    (void)pthread_cond_destroy(&access->ended);
    (void)pthread_mutex_destroy(&access->lock);
    free(access);
}

/* --- look-up --- */

const char *access_bearer_secret(const char *authorization)
{
    static const char scheme[] = "Bearer ";
    if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0) {
        return NULL;
    }
    const char *secret = authorization + sizeof scheme - 1;
    return secret + strspn(secret, " ");
}

bool access_needs_token(struct access *access, bool is_of_machine)
{
    INVARIANT(access != NULL);
    (void)pthread_mutex_lock(&access->lock);
    bool is_open = access->set != NULL && !access->has_had_tokens && !access->options.is_closed;
    (void)pthread_mutex_unlock(&access->lock);
    return !is_of_machine || (!access->options.is_anonymous && !is_open);
}

bool access_admits_others(struct access *access)
{
    INVARIANT(access != NULL);
    (void)pthread_mutex_lock(&access->lock);
    bool admits = access->has_had_tokens || access->options.is_closed;
    (void)pthread_mutex_unlock(&access->lock);
    return admits;
}

/* Whole seconds, at least one. */
static int seconds_of(int64_t duration_us)
{
    int64_t seconds = (duration_us + MICROSECONDS_PER_SECOND - 1) / MICROSECONDS_PER_SECOND;
    return seconds < 1 ? 1 : (int)seconds;
}

/* A bucket of one second: a token that paused may send the requests of a second at once. The smaller one of the server's
 * rate and the token's counts. */
static bool take_credit(const struct access *access, struct entry *entry, int64_t now_us, int *ret_retry_after_s)
{
    int64_t own = entry->token.rate;
    int64_t rate = access->options.rate == 0 || (own != 0 && own < access->options.rate) ? own : access->options.rate;
    if (rate == 0) {
        return true;
    }
    int64_t cost_us = time_later(MICROSECONDS_PER_SECOND / rate, 1);
    entry->credit_us = time_earlier(MICROSECONDS_PER_SECOND, entry->credit_us + (now_us - entry->credit_at_us));
    entry->credit_at_us = now_us;
    if (entry->credit_us < cost_us) {
        *ret_retry_after_s = seconds_of(cost_us - entry->credit_us);
        return false;
    }
    entry->credit_us -= cost_us;
    return true;
}

static bool copy_principal(const struct token *token, struct arena *arena, struct principal *ret_principal)
{
    const char **workspaces = arena_allocate(arena, (token->workspace_count + 1) * sizeof *workspaces);
    int64_t *ids = arena_allocate(arena, (token->workspace_count + 1) * sizeof *ids);
    struct principal principal = {.token_id = token->id,
                                  .name = arena_copy_string(arena, token->name),
                                  .role = token->role,
                                  .has_all_workspaces = token->has_all_workspaces,
                                  .workspaces = workspaces,
                                  .workspace_ids = ids,
                                  .workspace_count = token->workspace_count,
                                  .expires_at_us = token->expires_at_us,
                                  .max_body_bytes = token->max_body_bytes};
    bool is_whole = workspaces != NULL && ids != NULL && principal.name != NULL;
    for (size_t i = 0; i < token->workspace_count && is_whole; i++) {
        workspaces[i] = arena_copy_string(arena, token->workspaces[i]);
        ids[i] = token->workspace_ids[i];
        is_whole = workspaces[i] != NULL;
    }
    if (is_whole) {
        *ret_principal = principal;
    }
    return is_whole;
}

/* Steps 2 and 3, under the lock. */
static enum access_answer find_valid(struct access *access, const unsigned char hash[TOKEN_HASH_BYTES], int64_t now_us,
                                     struct entry **ret_entry)
{
    struct set *set = access->set;
    struct entry *entry = find_entry(set, hash);
    if (set == NULL || now_us - set->boot_us > ACCESS_STALE_US) {
        return ACCESS_STALE;
    }
    if (entry == NULL || entry->token.expires_at_us <= set->store_us + (now_us - set->boot_us)) {
        return ACCESS_UNKNOWN;
    }
    *ret_entry = entry;
    return ACCESS_GRANTED;
}

/* Steps 2 to 4, under the lock. */
static enum access_answer find_locked(struct access *access, const unsigned char hash[TOKEN_HASH_BYTES],
                                      struct arena *arena, struct principal *ret_principal, int *ret_retry_after_s)
{
    int64_t now_us = now_of(access);
    struct entry *entry = NULL;
    enum access_answer answer = find_valid(access, hash, now_us, &entry);
    if (answer != ACCESS_GRANTED) {
        return answer;
    }
    if (ret_retry_after_s != NULL && !take_credit(access, entry, now_us, ret_retry_after_s)) {
        return ACCESS_TOO_FAST;
    }
    if (entry->noted_at_us == 0 || now_us - entry->noted_at_us >= TOKEN_USE_US) {
        entry->noted_at_us = now_us;
        entry->is_used = true;
    }
    return copy_principal(&entry->token, arena, ret_principal) ? ACCESS_GRANTED : ACCESS_NO_MEMORY;
}

enum access_answer access_find(struct access *access, const char *secret, struct arena *arena,
                               struct principal *ret_principal, int *ret_retry_after_s)
{
    INVARIANT(access != NULL && secret != NULL && arena != NULL && ret_principal != NULL);
    unsigned char hash[TOKEN_HASH_BYTES];
    if (!token_secret_hash(secret, strlen(secret), hash)) {
        return ACCESS_UNKNOWN;
    }
    (void)pthread_mutex_lock(&access->lock);
    enum access_answer answer = find_locked(access, hash, arena, ret_principal, ret_retry_after_s);
    (void)pthread_mutex_unlock(&access->lock);
    return answer;
}

static bool token_has_workspace(const struct token *token, int64_t workspace_id)
{
    bool has_workspace = workspace_id == 0 || token->has_all_workspaces;
    for (size_t i = 0; i < token->workspace_count && !has_workspace; i++) {
        has_workspace = token->workspace_ids[i] == workspace_id;
    }
    return has_workspace;
}

enum access_answer access_find_again(struct access *access, const char *secret, int64_t workspace_id)
{
    INVARIANT(access != NULL && secret != NULL);
    unsigned char hash[TOKEN_HASH_BYTES];
    struct entry *entry = NULL;
    if (!token_secret_hash(secret, strlen(secret), hash)) {
        return ACCESS_UNKNOWN;
    }
    (void)pthread_mutex_lock(&access->lock);
    enum access_answer answer = find_valid(access, hash, now_of(access), &entry);
    if (answer == ACCESS_GRANTED && !token_has_workspace(&entry->token, workspace_id)) {
        answer = ACCESS_UNKNOWN;
    }
    (void)pthread_mutex_unlock(&access->lock);
    return answer;
}

/* --- refused attempts --- */

/* An IPv6 client has a whole /64 to choose its address from. */
static uint64_t key_of(const struct access *access, const struct sockaddr *address)
{
    uint64_t key = access->seed;
    if (address != NULL && address->sa_family == AF_INET) {
        key ^= ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    } else if (address != NULL && address->sa_family == AF_INET6) {
        uint64_t network;
        memcpy(&network, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof network);
        key ^= network;
    }
    struct random random;
    random_seed(&random, key);
    return random_next(&random);
}

/* Addresses that share a slot share its limit: only refused attempts are counted there, so no valid token is affected. */
static bool check_failures(struct access *access, const struct sockaddr *address, bool counts, int *ret_retry_after_s)
{
    (void)pthread_mutex_lock(&access->lock);
    int64_t *until_us = &access->failures_until_us[key_of(access, address) % FAILURE_SLOTS];
    int64_t now_us = now_of(access);
    int64_t from_us = time_later(*until_us, now_us);
    bool is_over = from_us - now_us > (ACCESS_FAILURES_MOST - 1) * ACCESS_FAILURE_US;
    if (is_over) {
        *ret_retry_after_s = seconds_of(from_us - now_us - (ACCESS_FAILURES_MOST - 1) * ACCESS_FAILURE_US);
    } else if (counts) {
        *until_us = from_us + ACCESS_FAILURE_US;
    }
    (void)pthread_mutex_unlock(&access->lock);
    return is_over;
}

bool access_count_failure(struct access *access, const struct sockaddr *address, int *ret_retry_after_s)
{
    INVARIANT(access != NULL && ret_retry_after_s != NULL);
    return check_failures(access, address, true, ret_retry_after_s);
}

bool access_has_failed(struct access *access, const struct sockaddr *address, int *ret_retry_after_s)
{
    INVARIANT(access != NULL && ret_retry_after_s != NULL);
    return check_failures(access, address, false, ret_retry_after_s);
}

/* --- rights --- */

bool access_has_role(const struct principal *principal, enum token_role role)
{
    return principal == NULL || principal->role >= role;
}

bool access_has_all_workspaces(const struct principal *principal)
{
    return principal == NULL || principal->has_all_workspaces;
}

/* The place of a workspace of the list; the length of the list: it has none of this name. */
static size_t access_place_workspace(const struct principal *principal, const char *workspace)
{
    size_t i = 0;
    while (i < principal->workspace_count && (workspace == NULL || strcmp(principal->workspaces[i], workspace) != 0)) {
        i++;
    }
    return i;
}

bool access_has_workspace(const struct principal *principal, const char *workspace)
{
    return access_has_all_workspaces(principal) ||
           access_place_workspace(principal, workspace) < principal->workspace_count;
}

bool access_has_workspace_id(const struct principal *principal, int64_t id)
{
    bool has = access_has_all_workspaces(principal);
    for (size_t i = 0; !has && i < principal->workspace_count; i++) {
        has = principal->workspace_ids[i] == id;
    }
    return has;
}

int64_t access_workspace_id(const struct principal *principal, const char *workspace)
{
    INVARIANT(access_has_workspace(principal, workspace));
    return access_has_all_workspaces(principal) ? 0
                                                : principal->workspace_ids[access_place_workspace(principal, workspace)];
}
