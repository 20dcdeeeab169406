/* Records whose rows the database refuses, by a trigger of the user's or by a constraint: they delay no other record. */
#include <string.h>

#include "base/text.h"
#include "conformance/scene.h"

/* Six items with one record each; the database refuses that of the fourth. */
static void one_is_refused(struct scene *scene, enum record_kind kind)
{
    scene_enqueue_many(scene, "big-co", 6);
    struct claim_result claim = scene_claim(scene, 6);
    struct record records[7];
    struct record_summary summary = {0};
    struct step_record running = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    struct step_record done = {.step = "one", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0};
    for (size_t i = 0; i < 6; i++) {
        records[i] = scene_record_of(kind, &claim.items[i]);
        records[i].step = kind == RECORD_STEP ? &running : kind == RECORD_COMPLETED ? &done : NULL;
    }
    records[6] = scene_record_of(RECORD_FAILED, &claim.items[3]); /* behind one that is refused */
    driver_refuse(&scene->driver, claim.items[3].id);
    scene_ok(scene, store_record(scene->store, scene->node, records, 7, &summary, &scene->error));
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(records[i].status, i == 3 || i == 6 ? WEIR_FAILED : WEIR_OK);
    }
    assert_int_equal(summary.changed, 5);
    assert_int_equal(summary.refused, 1);
    assert_non_null(strstr(summary.refusal, "not this one"));
    assert_string_equal(scene_status_of(scene, claim.items[3].id), "CLAIMED");
    driver_refuse(&scene->driver, NULL);
    scene_ok(scene, store_record(scene->store, scene->node, &records[3], 1, &summary, &scene->error));
    assert_int_equal(records[3].status, WEIR_OK);
    if (kind == RECORD_DISPATCHED || kind == RECORD_STEP) {
        scene_complete(scene, &claim);
    }
    assert_int_equal(scene_held(scene, "big-co"), 0);
}

static void one_refused_row_leaves_the_others_of_its_set_alone(void **state)
{
    struct scene *scene = *state;
    static const enum record_kind kinds[] = {RECORD_DISPATCHED, RECORD_STEP, RECORD_COMPLETED, RECORD_CANCELLED};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        one_is_refused(scene, kinds[i]);
    }
}

static void a_cause_that_lies_in_no_row_fails_the_call(void **state)
{
    struct scene *scene = *state;
    struct record records[20];
    struct record_summary summary = {0};
    scene_enqueue_many(scene, "big-co", 20);
    struct claim_result claim = scene_claim(scene, 20);
    for (size_t i = 0; i < 20; i++) {
        records[i] = scene_record_of(RECORD_COMPLETED, &claim.items[i]);
    }
    json_decref(driver_rows(&scene->driver, "ALTER TABLE workflow_executions RENAME COLUMN definition_id TO moved"));
    assert_int_not_equal(store_record(scene->store, scene->node, records, 20, &summary, &scene->error), WEIR_OK);
    json_decref(driver_rows(&scene->driver, "ALTER TABLE workflow_executions RENAME COLUMN moved TO definition_id"));
    scene_ok(scene, store_record(scene->store, scene->node, records, 20, &summary, &scene->error));
    assert_int_equal(scene_held(scene, "big-co"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(one_refused_row_leaves_the_others_of_its_set_alone),
        SCENE_TEST(a_cause_that_lies_in_no_row_fails_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
