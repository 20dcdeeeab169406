/* Migrations: an execution that waits goes on with another version of its workflow, if its steps on record fit there. */
#include "conformance/scene.h"
#include "store/bulk_act.h"

#define AN_HOUR SECONDS(3600)
#define STEP(name, body) "\"" name "\":{" body "}"
#define TRUE_STEP "\"exec\":[\"true\"]"
#define FLOW(steps) "{\"name\":\"flow\",\"steps\":{" steps "}}"
#define NAP STEP("nap", "\"needs\":[\"a\"],\"sleep\":\"1h\"")

#define MIGRATION_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

static int open_scene(void **state)
{
    int failed = scene_open(state);
    struct scene *scene = *state;
    if (failed == 0) {
        scene_ok(scene, store_act_as(scene->store, "ann", "because", &scene->error));
    }
    return failed;
}

static int publish(struct scene *scene, const char *name, const char *text)
{
    struct published published = {0};
    scene_ok(scene, store_publish(scene->store, name, NULL, text, NULL, &published, &scene->error));
    return published.version;
}

static const char *enqueue(struct scene *scene, const char *workflow)
{
    return scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = workflow});
}

static void record_step(struct scene *scene, const struct claimed_item *item, const struct step_record *step)
{
    struct record record = scene_record_of(RECORD_STEP, item);
    record.step = step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

static void record_state(struct scene *scene, const struct claimed_item *item, const char *name, enum step_state state)
{
    struct step_record step = {.state = state, .attempt = 1, .failures = state == STEP_FAILED, .exit_code = -1};
    text_copy(step.step, sizeof step.step, name);
    record_step(scene, item, &step);
}

/* The step waits; with a name for a signal. Then the execution is parked. */
static void park(struct scene *scene, const struct claimed_item *item, const char *name, const char *signal)
{
    struct step_record step = {.state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = AN_HOUR};
    struct record parked = scene_record_of(RECORD_PARKED, item);
    text_copy(step.step, sizeof step.step, name);
    text_copy(step.signal, sizeof step.signal, signal);
    record_step(scene, item, &step);
    parked.delay_us = AN_HOUR;
    parked.waiting_for = signal[0] == '\0' ? WAIT_SLEEP : WAIT_SIGNAL;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
}

static struct claimed_item begin(struct scene *scene, const char *workflow)
{
    const char *id = enqueue(scene, workflow);
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, id);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    return item;
}

/* `a` has completed, and `nap` sleeps. */
static struct claimed_item parked_flow(struct scene *scene)
{
    struct claimed_item item = begin(scene, "flow");
    record_state(scene, &item, "a", STEP_COMPLETED);
    park(scene, &item, "nap", "");
    return item;
}

static struct bulk_result migrate(struct scene *scene, const struct execution_filter *filter, int version, bool only_checks)
{
    struct bulk_result result = {0};
    const struct act_order order = {.to_version = version, .only_checks = only_checks};
    scene_ok(scene, store_bulk_ordered(scene->store, BULK_MIGRATE, &order, filter, "", 100, &result, &scene->error));
    return result;
}

static void assert_migrated(struct scene *scene, const char *id, int version)
{
    const struct execution_filter filter = {.id = id};
    assert_int_equal(migrate(scene, &filter, version, true).changed, 1); /* which changes nothing */
    struct bulk_result result = migrate(scene, &filter, version, false);
    if (result.changed != 1) {
        fail_msg("%s", result.refusal.message);
    }
    scene_check(scene);
}

/* Both by the act and by its check, with the same text. */
static void refuse_migration(struct scene *scene, const char *id, int version, enum weir_status status, const char *words)
{
    const struct execution_filter filter = {.id = id};
    for (int only_checks = 0; only_checks < 2; only_checks++) {
        struct bulk_result result = migrate(scene, &filter, version, only_checks == 1);
        assert_int_equal(result.changed, 0);
        assert_int_equal(result.refused, 1);
        assert_int_equal(result.first_refusal, status);
        if (strstr(result.refusal.message, words) == NULL) {
            fail_msg("\"%s\" has not the words \"%s\"", result.refusal.message, words);
        }
    }
}

static void a_parked_execution_goes_on_with_the_new_version(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP)), 1);
    struct claimed_item item = parked_flow(scene);
    assert_int_equal(publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP "," STEP("c", TRUE_STEP))), 2);
    assert_migrated(scene, item.id, 2);
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    assert_int_equal(scene_number(scene, "SELECT version FROM executions WHERE id = '%s'", item.id), 2);
    assert_string_equal(scene_text(scene, "SELECT detail FROM execution_events WHERE event = 'migrate'"), "version 1 to 2");
    assert_string_equal(scene_text(scene, "SELECT actor FROM execution_events WHERE event = 'migrate'"), "ann");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'migrate' AND affected = 1"), 1);
    refuse_migration(scene, item.id, 2, WEIR_ILLEGAL_STATE, "it has version 2 already");
    scene_pass(scene, AN_HOUR);
    scene_beat(scene, scene->node);
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(again.version, 2);
    assert_int_equal(again.step_count, 2); /* what is on record stays */
}

static void a_version_that_is_not_there_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP));
    (void)publish(scene, "other", "{\"name\":\"other\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}");
    (void)publish(scene, "other", "{\"name\":\"other\",\"steps\":{\"a\":{\"exec\":[\"false\"]}}}");
    struct claimed_item item = parked_flow(scene);
    refuse_migration(scene, item.id, 2, WEIR_WORKFLOW_NOT_FOUND, "is WAITING: its workflow has no version 2");
    struct act_order order = {.to_version = 0};
    struct execution_filter filter = {.id = item.id};
    struct bulk_result result = {0};
    assert_int_equal(store_bulk_ordered(scene->store, BULK_MIGRATE, &order, &filter, "", 10, &result, &scene->error),
                     WEIR_INVALID_ARGUMENT);
    order.to_version = 2;
    filter = (struct execution_filter){.workspace = "pro-co"};
    assert_int_equal(store_bulk_ordered(scene->store, BULK_MIGRATE, &order, &filter, "", 10, &result, &scene->error),
                     WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(scene->error.message, "names the workflow"));
}

/* A deleted version is none, though its number is on record. */
static void a_deleted_version_is_refused(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(publish(scene, "flow", FLOW(STEP("a", TRUE_STEP))), 1);
    scene_ok(scene, store_set_workflow_state(scene->store, "flow", NULL, WORKFLOW_DELETED, &scene->error));
    assert_int_equal(publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP)), 2);
    refuse_migration(scene, enqueue(scene, "flow"), 1, WEIR_WORKFLOW_NOT_FOUND, "has no version 1");
}

static void an_execution_that_is_held_or_has_ended_is_refused(void **state)
{
    struct scene *scene = *state;
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP));
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP)));
    const char *id = enqueue(scene, "flow");
    struct claimed_item item = scene_claim_one(scene);
    refuse_migration(scene, id, 1, WEIR_ILLEGAL_STATE, "is CLAIMED: a node holds it; migrate it while it is PENDING");
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    refuse_migration(scene, id, 1, WEIR_ILLEGAL_STATE, "is DISPATCHED: a node holds it");
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    refuse_migration(scene, id, 1, WEIR_ILLEGAL_STATE, "is COMPLETED: it has ended");
}

static void workflows_of_temporal_are_refused(void **state)
{
    struct scene *scene = *state;
    (void)publish(scene, "flow", "{\"name\":\"flow\",\"temporal\":{}}");
    const char *remote = enqueue(scene, "flow");
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP)));
    refuse_migration(scene, remote, 2, WEIR_ILLEGAL_STATE, "is PENDING: workflows of Temporal cannot be migrated");
    refuse_migration(scene, enqueue(scene, "flow"), 1, WEIR_ILLEGAL_STATE, "workflows of Temporal cannot be migrated");
}

#define SAGA(steps, clean) "{\"name\":\"flow\",\"steps\":{" steps "},\"finally\":{" clean "}}"
#define WITH_UNDO STEP("a", TRUE_STEP ",\"undo\":{" TRUE_STEP "}")
#define SOFT STEP("soft", "\"continue_on_error\":true," TRUE_STEP)
#define LAST STEP("d", "\"needs\":[\"soft\"]," TRUE_STEP)
#define CLEAN STEP("clean", "\"sleep\":\"1h\"")

/* An execution in its last stage: `a` was undone, `soft` failed as it may, `d` has failed, and `clean` sleeps. */
static void each_step_that_does_not_fit_is_named(void **state)
{
    struct scene *scene = *state;
    static const struct {
        const char *text;
        const char *words; /* NULL: it fits */
    } cases[] = {
        {SAGA(WITH_UNDO "," SOFT "," LAST "," STEP("more", TRUE_STEP), CLEAN),
         "record: more is new, and the execution has"},
        {SAGA(WITH_UNDO "," SOFT "," LAST, CLEAN "," STEP("more", TRUE_STEP)), NULL},
        {SAGA(STEP("a", "\"undo\":{" TRUE_STEP "},\"exec\":[\"other\"]") "," SOFT "," LAST, CLEAN), NULL},
        {SAGA(STEP("a", TRUE_STEP) "," SOFT "," LAST, CLEAN), "on record: a.undo is not there"},
        {SAGA(STEP("a", TRUE_STEP ",\"undo\":{\"handler\":\"h\"}") "," SOFT "," LAST, CLEAN),
         "record: a.undo is of another kind"},
        {SAGA(WITH_UNDO "," STEP("soft", TRUE_STEP) "," LAST, CLEAN), "record: soft has another continue_on_error"},
        {SAGA(WITH_UNDO "," SOFT "," LAST "," STEP("clean", "\"sleep\":\"1h\""), STEP("else", TRUE_STEP)),
         "record: clean is in another part"},
        {SAGA(WITH_UNDO "," SOFT "," STEP("new", TRUE_STEP) "," STEP("d", "\"needs\":[\"soft\",\"new\"]," TRUE_STEP),
              CLEAN),
         "record: d needs a step that has not ended"},
        {SAGA(STEP("b", TRUE_STEP), STEP("else", TRUE_STEP)),
         "record: a is not there, a.undo is not there, b is new, and the execution has begun to end, clean is not there"},
    };
    (void)publish(scene, "flow", SAGA(WITH_UNDO "," SOFT "," LAST, CLEAN));
    struct claimed_item item = begin(scene, "flow");
    record_state(scene, &item, "a", STEP_COMPLETED);
    record_state(scene, &item, "soft", STEP_FAILED);
    record_state(scene, &item, "d", STEP_FAILED);
    record_state(scene, &item, "a.undo", STEP_COMPLETED);
    park(scene, &item, "clean", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int version = publish(scene, "flow", cases[i].text);
        if (cases[i].words != NULL) {
            refuse_migration(scene, item.id, version, WEIR_ILLEGAL_STATE, cases[i].words);
        } else {
            assert_migrated(scene, item.id, version);
        }
    }
}

static void a_refusal_names_five_steps_and_counts_the_others(void **state)
{
    struct scene *scene = *state;
    char name[] = "a";
    (void)publish(scene, "flow",
                  FLOW(STEP("a", TRUE_STEP) "," STEP("b", TRUE_STEP) "," STEP("c", TRUE_STEP) "," STEP(
                      "d", TRUE_STEP) "," STEP("e", TRUE_STEP) "," STEP("f", TRUE_STEP) "," STEP("g", "\"sleep\":\"1h\"")));
    struct claimed_item item = begin(scene, "flow");
    for (; name[0] < 'g'; name[0]++) {
        record_state(scene, &item, name, STEP_COMPLETED);
    }
    park(scene, &item, "g", "");
    (void)publish(scene, "flow", FLOW(STEP("x", TRUE_STEP)));
    refuse_migration(scene, item.id, 2, WEIR_ILLEGAL_STATE, "e is not there, and 2 more");
}

/* A signal that is on its way would find nothing that takes it. A sleep and a wait for the next attempt have their time on
 * record, so their definition may change. */
static void a_wait_for_others_stays_the_same(void **state)
{
    struct scene *scene = *state;
    static const char *const waits[][3] = {
        /* the name on record, the present step, another one */
        {"paid", "\"signal\":\"paid\"", "\"signal\":\"booked\""},
        {"approve:w", "\"approve\":{\"by\":[\"ann\"]}", "\"approve\":{\"by\":[\"bob\"]}"},
        {"callback:w", "\"http\":{\"url\":\"http://a/\",\"callback\":\"1h\"}", "\"http\":{\"url\":\"http://a/\"}"},
        {"children:w", "\"start\":{\"workflow\":\"hello\"}", "\"start\":{\"workflow\":\"other\"}"},
    };
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{\"name\":\"flow\",\"steps\":{\"w\":{%s}}}", waits[i][1]);
        int version = publish(scene, "flow", text);
        struct claimed_item item = begin(scene, "flow");
        park(scene, &item, "w", waits[i][0]);
        (void)snprintf(text, sizeof text, "{\"name\":\"flow\",\"steps\":{\"w\":{%s}}}", waits[i][2]);
        assert_int_equal(publish(scene, "flow", text), version + 1);
        refuse_migration(scene, item.id, version + 1, WEIR_ILLEGAL_STATE, "w waits for something else");
        (void)snprintf(text, sizeof text, "{\"name\":\"flow\",\"steps\":{\"w\":{%s},\"z\":{\"exec\":[\"true\"]}}}",
                       waits[i][1]);
        assert_int_equal(publish(scene, "flow", text), version + 2);
        assert_migrated(scene, item.id, version + 2);
    }
}

/* Handlers make another lane: a runnable, a delayed and a parked item move there, and the books fit. The scheduler keeps
 * its memory, so it learns of the runnable one by the news. */
static void an_item_whose_version_needs_handlers_moves_to_their_lane(void **state)
{
    struct scene *scene = *state;
    bool more = false;
    scene->keeps_claimers = true;
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP));
    struct claimed_item parked = parked_flow(scene);
    assert_int_equal(scene_claim(scene, 1).count, 0);
    const char *later = scene_enqueue_request(
        scene,
        &(struct enqueue_request){.workspace = "pro-co", .workflow = "flow", .run_at_us = scene_now(scene) + SECONDS(30)});
    const char *runnable = enqueue(scene, "flow");
    (void)publish(scene, "flow",
                  FLOW(STEP("a", TRUE_STEP) "," NAP "," STEP("z", "\"needs\":[\"nap\"],\"handler\":\"send\"")));
    const struct execution_filter filter = {.workflow = "flow"};
    struct bulk_result result = migrate(scene, &filter, 2, false);
    assert_int_equal(result.changed, 3);
    scene_check(scene);
    assert_string_equal(scene_reason_of(scene, runnable), "no_worker");
    scene_ok(scene,
             store_node_handlers(scene->store, scene->node, &(struct node_handlers){.language = "c", .names = "[\"send\"]"},
                                 &more, &scene->error));
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, runnable);
    assert_int_equal(item.version, 2);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(31));
    scene_beat(scene, scene->node);
    assert_string_equal(scene_claim_one(scene).id, later);
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP));
    assert_migrated(scene, parked.id, 3); /* and back */
}

/* The scheduler has the item in its memory as the next one of its former lane. */
static void an_item_that_the_scheduler_has_read_moves_all_the_same(void **state)
{
    struct scene *scene = *state;
    bool more = false;
    scene->keeps_claimers = true;
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP)));
    scene_ok(scene, store_node_handlers(scene->store, scene->node, &(struct node_handlers){.names = "[\"send\"]"}, &more,
                                        &scene->error));
    const char *ids[3];
    for (size_t i = 0; i < 3; i++) {
        ids[i] = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "flow"});
    }
    struct claimed_item item = scene_claim_one(scene);
    (void)publish(scene, "flow", FLOW(STEP("z", "\"handler\":\"send\"")));
    assert_migrated(scene, ids[1], 2);
    size_t moved = 0;
    for (size_t i = 0; i < 3; i++) {
        bool is_moved = strcmp(item.id, ids[1]) == 0;
        moved += is_moved;
        assert_int_equal(item.version, is_moved ? 2 : 1);
        assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
        assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
        if (i < 2) {
            item = scene_claim_one(scene);
        }
        scene_check(scene);
    }
    assert_int_equal(moved, 1);
    /* It knows the lane as one without items: only the news of the migration make it look again. */
    const char *back = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "flow"});
    assert_migrated(scene, back, 1);
    item = scene_claim_one(scene);
    assert_string_equal(item.id, back);
    assert_int_equal(item.version, 1);
}

/* A retry with kept steps is PENDING with steps on record; so they must fit. */
static void the_kept_steps_of_a_retry_must_fit(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP));
    struct claimed_item item = begin(scene, "flow");
    record_state(scene, &item, "a", STEP_COMPLETED);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    const struct execution_filter filter = {.id = item.id};
    const struct act_order keep = {.keeps_finished = true};
    scene_ok(scene, store_bulk_ordered(scene->store, BULK_RETRY, &keep, &filter, "", 1, &result, &scene->error));
    (void)publish(scene, "flow", FLOW(STEP("b", TRUE_STEP)));
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," STEP("b", TRUE_STEP)));
    refuse_migration(scene, result.new_id, 2, WEIR_ILLEGAL_STATE, "is PENDING: version 2 does not fit");
    assert_migrated(scene, result.new_id, 3);
    assert_int_equal(scene_claim_one(scene).step_count, 1);
}

static void a_filter_migrates_many_and_a_dry_run_none(void **state)
{
    struct scene *scene = *state;
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP));
    (void)parked_flow(scene);
    (void)enqueue(scene, "flow");
    (void)publish(scene, "flow", FLOW(STEP("b", TRUE_STEP)));
    struct execution_filter filter = {.workflow = "flow"};
    const struct act_order order = {.to_version = 2};
    struct bulk_matches matches = {.matched = 0};
    bulk_act_complete_filter(BULK_MIGRATE, scene_now(scene), &filter);
    scene_ok(scene, bulk_act_count(scene->store, &filter, &matches, &scene->error));
    scene_ok(scene, bulk_act_rehearse(scene->store, BULK_MIGRATE, &order, &filter, &matches, &scene->error));
    assert_int_equal(matches.matched, 2);
    assert_int_equal(matches.refused, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE version = 2"), 0);
    assert_int_equal(migrate(scene, &filter, 2, false).changed, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE version = 2"), 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'migrate'"), 1);
}

/* The work of a later part does not come before that of a new step. */
static void an_execution_that_has_begun_to_end_takes_no_new_step(void **state)
{
    struct scene *scene = *state;
    static const char parts[] = "{\"name\":\"flow\",%s\"steps\":{%s},\"finally\":{%s}}";
#define LATE STEP("drop", TRUE_STEP) "," STEP("nap", "\"needs\":[\"drop\"],\"sleep\":\"1h\"")
    char text[600];
    (void)snprintf(text, sizeof text, parts, "", STEP("a", TRUE_STEP), LATE);
    (void)publish(scene, "flow", text);
    struct claimed_item item = begin(scene, "flow");
    record_state(scene, &item, "a", STEP_COMPLETED);
    record_state(scene, &item, "drop", STEP_COMPLETED);
    park(scene, &item, "nap", "");
    (void)snprintf(text, sizeof text, parts, "", STEP("a", TRUE_STEP) "," STEP("b", TRUE_STEP), LATE);
    refuse_migration(scene, item.id, publish(scene, "flow", text), WEIR_ILLEGAL_STATE,
                     "b is new, and the execution has begun");
    (void)snprintf(text, sizeof text, parts, "\"timeout\":\"4h\",", STEP("a", TRUE_STEP), LATE);
    refuse_migration(scene, item.id, publish(scene, "flow", text), WEIR_ILLEGAL_STATE, "timeout is another");
    (void)snprintf(text, sizeof text, parts, "", STEP("a", TRUE_STEP), LATE "," STEP("last", TRUE_STEP));
    assert_migrated(scene, item.id, publish(scene, "flow", text));
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
}

/* A node alone knows when the execution times out. */
static void another_timeout_wakes_a_parked_execution(void **state)
{
    struct scene *scene = *state;
    (void)publish(scene, "flow", FLOW(STEP("a", TRUE_STEP) "," NAP));
    struct claimed_item item = parked_flow(scene);
    int version =
        publish(scene, "flow", "{\"name\":\"flow\",\"timeout\":\"2h\",\"steps\":{" STEP("a", TRUE_STEP) "," NAP "}}");
    assert_migrated(scene, item.id, version);
    assert_string_equal(scene_status_of(scene, item.id), "PENDING");
    assert_string_equal(scene_claim_one(scene).id, item.id);
}

#define STATES(states, variables, signals)                                                                                 \
    "{\"name\":\"machine\",\"states\":{" states "},\"initial\":\"a\",\"variables\":{" variables "},\"signals\":[" signals  \
    "]}"
#define A_ALONE "\"a\":{\"type\":\"normal\"}"
#define A_AND_B A_ALONE ",\"b\":{\"type\":\"normal\"}"
#define LIMIT "\"limit\":{\"type\":\"integer\"}"

/* The present state, the variables with a value and the awaited signal have to be there. */
static void a_machine_goes_on_where_its_state_is_there(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(publish(scene, "machine", STATES(A_AND_B, LIMIT, "\"paid\"")), 1);
    assert_int_equal(publish(scene, "machine", STATES(A_ALONE, LIMIT, "\"paid\"")), 2);
    assert_int_equal(publish(scene, "machine", STATES(A_ALONE ",\"b\":{\"type\":\"manual\"}", LIMIT, "\"paid\"")), 3);
    assert_int_equal(publish(scene, "machine", STATES(A_AND_B, "\"limit\":{\"type\":\"string\"}", "\"paid\"")), 4);
    assert_int_equal(publish(scene, "machine", STATES(A_AND_B, LIMIT, "\"sent\"")), 5);
    assert_int_equal(publish(scene, "machine", FLOW(STEP("state", TRUE_STEP))), 6);
    assert_int_equal(publish(scene, "machine",
                             STATES(A_AND_B ",\"c\":{\"type\":\"end\"}", LIMIT ",\"more\":{\"type\":\"any\"}", "\"paid\"")),
                     7);
    const struct execution_filter newest = {.workflow = "machine"};
    const char *id = enqueue(scene, "machine");
    assert_int_equal(migrate(scene, &newest, 1, false).changed, 1); /* it has not begun */
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, id);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    char machine[] = "{\"state\":\"b\",\"variables\":{\"limit\":3}}";
    struct step_record step = {
        .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = AN_HOUR, .variables = machine};
    struct record parked = scene_record_of(RECORD_PARKED, &item);
    text_copy(step.step, sizeof step.step, "state");
    text_copy(step.signal, sizeof step.signal, "paid");
    record_step(scene, &item, &step);
    parked.delay_us = AN_HOUR;
    parked.waiting_for = WAIT_SIGNAL;
    assert_int_equal(scene_record_full(scene, scene->node, parked), WEIR_OK);
    refuse_migration(scene, id, 2, WEIR_ILLEGAL_STATE, "state is not there: b");
    refuse_migration(scene, id, 3, WEIR_ILLEGAL_STATE, "state has another type: b");
    refuse_migration(scene, id, 4, WEIR_ILLEGAL_STATE, "state has other variables");
    refuse_migration(scene, id, 5, WEIR_ILLEGAL_STATE, "state waits for something else");
    refuse_migration(scene, id, 6, WEIR_ILLEGAL_STATE, "state is in another part");
    assert_migrated(scene, id, 7);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        MIGRATION_TEST(a_parked_execution_goes_on_with_the_new_version),
        MIGRATION_TEST(a_version_that_is_not_there_is_refused),
        MIGRATION_TEST(a_deleted_version_is_refused),
        MIGRATION_TEST(an_execution_that_is_held_or_has_ended_is_refused),
        MIGRATION_TEST(workflows_of_temporal_are_refused),
        MIGRATION_TEST(each_step_that_does_not_fit_is_named),
        MIGRATION_TEST(a_refusal_names_five_steps_and_counts_the_others),
        MIGRATION_TEST(a_wait_for_others_stays_the_same),
        MIGRATION_TEST(an_item_whose_version_needs_handlers_moves_to_their_lane),
        MIGRATION_TEST(an_item_that_the_scheduler_has_read_moves_all_the_same),
        MIGRATION_TEST(the_kept_steps_of_a_retry_must_fit),
        MIGRATION_TEST(an_execution_that_has_begun_to_end_takes_no_new_step),
        MIGRATION_TEST(another_timeout_wakes_a_parked_execution),
        MIGRATION_TEST(a_machine_goes_on_where_its_state_is_there),
        MIGRATION_TEST(a_filter_migrates_many_and_a_dry_run_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
