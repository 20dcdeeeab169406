#include "conformance/rounds.h"

/* --- seats --- */

void seat_take_on(struct seat *seat, struct scene *scene, struct store *store, int64_t node)
{
    *seat = (struct seat){.scene = scene, .store = store, .node = node};
    scene_ok(scene, take_role(store, node, &seat->epoch, &scene->error));
    (void)seat_round(seat, (struct schedule_call){.load = true});
}

void seat_take(struct seat *seat, struct scene *scene, int64_t node)
{
    seat_take_on(seat, scene, scene->store, node);
}

enum weir_status seat_try(struct seat *seat, struct schedule_call *call)
{
    call->node_id = seat->node;
    call->epoch = seat->epoch;
    struct schedule_answer answer = {.now_us = -1};
    enum weir_status status = store_schedule(seat->store, call, &seat->scene->arena, &answer, &seat->scene->error);
    if (status == WEIR_OK) {
        seat->answer = answer;
    } else {
        assert_int_equal(answer.now_us, -1); /* untouched on failure */
    }
    return status;
}

const struct schedule_answer *seat_round(struct seat *seat, struct schedule_call call)
{
    scene_ok(seat->scene, seat_try(seat, &call));
    return &seat->answer;
}

const struct schedule_answer *seat_news(struct seat *seat)
{
    struct schedule_answer all = {0};
    do {
        const struct schedule_answer *part = seat_round(seat, (struct schedule_call){.needs = 0});
        size_t count = all.fact_count + part->fact_count;
        struct schedule_fact *facts = arena_allocate(&seat->scene->arena, (count + 1) * sizeof *facts);
        assert_non_null(facts);
        for (size_t i = 0; i < count; i++) {
            facts[i] = i < all.fact_count ? all.facts[i] : part->facts[i - all.fact_count];
        }
        all = *part;
        all.facts = facts;
        all.fact_count = count;
    } while (all.more_news);
    seat->answer = all;
    return &seat->answer;
}

static enum assignment_outcome assign(struct seat *seat, struct assignment assignment)
{
    struct assignment given = assignment;
    const struct schedule_answer *answer =
        seat_round(seat, (struct schedule_call){.assignments = &assignment, .assignment_count = 1});
    assert_memory_equal(assignment.id, given.id, sizeof given.id);
    assert_int_equal(answer->assigned, assignment.outcome == ASSIGNMENT_TAKEN);
    assert_int_equal(answer->is_stale, assignment.outcome == ASSIGNMENT_UNDONE);
    assert_int_equal(answer->claimed.count, answer->assigned == 1 && assignment.node_id == seat->node);
    return assignment.outcome;
}

enum assignment_outcome seat_assign(struct seat *seat, const char *id, int64_t node)
{
    return assign(seat, assignment_of(seat->scene, id, node));
}

enum assignment_outcome seat_hand_over(struct seat *seat, const char *id, int64_t node)
{
    struct assignment assignment = assignment_of(seat->scene, id, node);
    assignment.handed_over = true;
    return assign(seat, assignment);
}

void seat_publish(struct seat *seat)
{
    struct scene *scene = seat->scene;
    bool more = true;
    for (int i = 0; more; i++) {
        assert_true(i < 1000);
        scene_ok(scene, store_publish_books(seat->store, seat->node, seat->epoch, NULL, 0, &more, &scene->error));
    }
}

/* --- ids --- */

const char *id_of_key(struct scene *scene, const uint8_t *key)
{
    char id[UUID_TEXT_MAX];
    driver_item_of_key(&scene->driver, key, id);
    return arena_copy_string(&scene->arena, id);
}

struct assignment assignment_of(struct scene *scene, const char *id, int64_t node)
{
    struct assignment assignment = {.node_id = node, .outcome = ASSIGNMENT_UNDONE};
    driver_item_key(&scene->driver, id, assignment.id);
    if (scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE id = '%s'", id) == 1) {
        assignment.rank = scene_number(scene, "SELECT rank FROM workflow_execution_queue WHERE id = '%s'", id);
        assignment.lane_id = scene_number(scene, "SELECT lane_id FROM workflow_execution_queue WHERE id = '%s'", id);
    }
    return assignment;
}

int64_t row_id_of(struct scene *scene, const char *table, const char *name)
{
    return scene_number(scene, "SELECT id FROM %s WHERE name = '%s'", table, name);
}

int64_t lane_of(struct scene *scene, const char *workspace, const char *group)
{
    return lane_id_of(row_id_of(scene, "executor_groups", group), row_id_of(scene, "workspaces", workspace));
}

/* --- facts --- */

size_t count_facts(const struct schedule_answer *answer, enum schedule_fact_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < answer->fact_count; i++) {
        count += answer->facts[i].kind == kind;
    }
    return count;
}

const struct schedule_fact *find_fact(const struct schedule_answer *answer, enum schedule_fact_kind kind, int64_t lane)
{
    for (size_t i = 0; i < answer->fact_count; i++) {
        if (answer->facts[i].kind == kind && (lane == 0 || answer->facts[i].lane_id == lane)) {
            return &answer->facts[i];
        }
    }
    return NULL;
}

const struct schedule_fact *find_node(const struct schedule_answer *answer, int64_t node)
{
    const struct schedule_fact *found = NULL;
    for (size_t i = 0; i < answer->fact_count; i++) {
        if (answer->facts[i].kind == FACT_NODE && answer->facts[i].node_id == node) {
            found = &answer->facts[i];
        }
    }
    return found;
}

int64_t sum_slots(const struct schedule_answer *answer, int64_t lane)
{
    int64_t sum = 0;
    for (size_t i = 0; i < answer->fact_count; i++) {
        const struct schedule_fact *fact = &answer->facts[i];
        sum += fact->kind == FACT_HELD && (lane == 0 || fact->lane_id == lane) ? fact->slots : 0;
    }
    return sum;
}

int64_t sum_node_held(const struct schedule_answer *answer, int64_t node)
{
    int64_t sum = 0;
    for (size_t i = 0; i < answer->fact_count; i++) {
        const struct schedule_fact *fact = &answer->facts[i];
        sum += fact->kind == FACT_HELD && (node == 0 || fact->node_id == node) ? fact->node_held : 0;
    }
    return sum;
}

unsigned news_flags(const struct schedule_answer *answer)
{
    unsigned flags = 0;
    for (size_t i = 0; i < answer->fact_count; i++) {
        flags |= answer->facts[i].kind == FACT_NEWS ? answer->facts[i].flags : 0;
    }
    return flags;
}
