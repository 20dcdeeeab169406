/* The progress of running attempts: shown while their claim holds, fenced, and gone with the execution. */
#include "base/text.h"
#include "conformance/scene.h"

static struct progress_record report_of(const struct claimed_item *item, int attempt, int parts, const char *text)
{
    return (struct progress_record){.execution_id = item->id,
                                    .step = "only",
                                    .attempt = attempt,
                                    .fence = item->fence,
                                    .at_us = 1700000000000001,
                                    .parts = parts,
                                    .text = text};
}

static void write_one(struct scene *scene, struct progress_record record)
{
    scene_ok(scene, store_write_progress(scene->store, &record, 1, &scene->error));
}

/* As show and list have it, which must agree. The caller frees it. */
static json_t *progress_of(struct scene *scene, const char *id)
{
    json_t *shown = NULL;
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.id = id}, .limit = 1};
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    json_t *progress = json_incref(json_object_get(shown, "progress"));
    const json_t *row = json_array_get(json_object_get(page, "items"), 0);
    assert_true(json_equal(progress, json_object_get(row, "progress")));
    json_decref(shown);
    json_decref(page);
    return progress;
}

static size_t count_reports(struct scene *scene, const char *id)
{
    json_t *progress = progress_of(scene, id);
    assert_true(json_is_array(progress));
    size_t count = json_array_size(progress);
    json_decref(progress);
    return count;
}

static void assert_report(struct scene *scene, const char *id, int attempt, double fraction, const char *text)
{
    json_t *progress = progress_of(scene, id);
    const json_t *report = json_array_get(progress, 0);
    assert_int_equal(json_array_size(progress), 1);
    assert_string_equal(json_string_value(json_object_get(report, "step")), "only");
    assert_int_equal(json_integer_value(json_object_get(report, "attempt")), attempt);
    assert_string_equal(json_string_value(json_object_get(report, "at")), "2023-11-14T22:13:20.000001Z");
    if (fraction < 0) {
        assert_true(json_is_null(json_object_get(report, "fraction")));
    } else {
        assert_true(json_is_number(json_object_get(report, "fraction")));
        assert_true(json_number_value(json_object_get(report, "fraction")) == fraction);
    }
    if (text == NULL) {
        assert_true(json_is_null(json_object_get(report, "text")));
    } else {
        assert_string_equal(json_string_value(json_object_get(report, "text")), text);
    }
    json_decref(progress);
}

static void the_newest_report_of_an_attempt_is_shown(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    assert_int_equal(count_reports(scene, id), 0);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(count_reports(scene, id), 0);
    write_one(scene, report_of(&item, 1, 0, "begins"));
    assert_report(scene, id, 1, 0.0, "begins");
    write_one(scene, report_of(&item, 1, 3333, "\"a\" \\ b\xc3\xa9"));
    assert_report(scene, id, 1, 0.3333, "\"a\" \\ b\xc3\xa9");
    write_one(scene, report_of(&item, 1, 1, ""));
    assert_report(scene, id, 1, 0.0001, NULL);
    write_one(scene, report_of(&item, 2, -1, "another attempt"));
    assert_report(scene, id, 2, -1, "another attempt");
    write_one(scene, report_of(&item, 1, 9000, "late"));
    assert_report(scene, id, 2, -1, "another attempt");
    write_one(scene, report_of(&item, 2, PROGRESS_PARTS, "ready"));
    assert_report(scene, id, 2, 1.0, "ready");
}

static void a_set_has_reports_of_many_steps(void **state)
{
    struct scene *scene = *state;
    char steps[PROGRESS_WRITE_MOST][8];
    struct progress_record set[PROGRESS_WRITE_MOST];
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    for (int i = 0; i < PROGRESS_WRITE_MOST; i++) {
        (void)snprintf(steps[i], sizeof steps[i], "s%02d", i);
        set[i] = report_of(&item, 1, i, "x");
        set[i].step = steps[i];
    }
    scene_ok(scene, store_write_progress(scene->store, set, PROGRESS_WRITE_MOST, &scene->error));
    json_t *progress = progress_of(scene, id);
    assert_int_equal(json_array_size(progress), PROGRESS_WRITE_MOST);
    assert_string_equal(json_string_value(json_object_get(json_array_get(progress, 63), "step")), "s63");
    json_decref(progress);
    for (int i = 0; i < PROGRESS_WRITE_MOST; i++) {
        set[i].is_over = i != 5;
    }
    scene_ok(scene, store_write_progress(scene->store, set, PROGRESS_WRITE_MOST, &scene->error));
    assert_int_equal(count_reports(scene, id), 1);
}

static void a_report_without_its_claim_changes_nothing(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item unclaimed = {.fence = 0};
    text_copy(unclaimed.id, sizeof unclaimed.id, id);
    write_one(scene, report_of(&unclaimed, 1, 1, "of no claim"));
    struct claimed_item item = scene_claim_one(scene);
    write_one(scene, report_of(&item, 1, 5000, "right"));
    struct claimed_item other = item;
    other.fence--;
    write_one(scene, report_of(&other, 9, 1, "of a former claim"));
    other.fence += 2;
    write_one(scene, report_of(&other, 9, 1, "of no claim yet"));
    assert_report(scene, id, 1, 0.5, "right");
    text_copy(other.id, sizeof other.id, "019a0000-0000-7000-8000-000000000000");
    write_one(scene, report_of(&other, 1, 1, "of no execution"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM step_progress"), 1);
}

static void the_end_of_an_attempt_removes_its_report_alone(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    write_one(scene, report_of(&item, 2, 5000, "right"));
    struct progress_record over = report_of(&item, 1, -1, "");
    over.is_over = true;
    write_one(scene, over);
    over.attempt = 2;
    over.fence--;
    write_one(scene, over);
    assert_report(scene, id, 2, 0.5, "right");
    over.fence++;
    write_one(scene, over);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM step_progress"), 0);
    write_one(scene, over);
}

static void a_later_claim_does_not_show_the_report_of_a_former_one(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    write_one(scene, report_of(&item, 7, 5000, "former"));
    assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &item), WEIR_OK);
    assert_int_equal(count_reports(scene, id), 0);
    item = scene_claim_one(scene);
    assert_int_equal(count_reports(scene, id), 0);
    write_one(scene, report_of(&item, 1, 100, "present"));
    assert_report(scene, id, 1, 0.01, "present");
}

static void a_report_goes_with_its_execution(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claim_result claim = scene_claim(scene, 1);
    write_one(scene, report_of(&claim.items[0], 1, 5000, "left by a dead node"));
    scene_complete(scene, &claim);
    assert_int_equal(count_reports(scene, id), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM step_progress"), 1);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM step_progress"), 0);
}

static void wrong_reports_are_refused_whole(void **state)
{
    struct scene *scene = *state;
    char longest[PROGRESS_TEXT_MAX + 2];
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    memset(longest, 'x', sizeof longest);
    longest[PROGRESS_TEXT_MAX + 1] = '\0';
    struct progress_record wrong[] = {report_of(&item, 0, 1, "x"), report_of(&item, 1, -2, "x"),
                                      report_of(&item, 1, PROGRESS_PARTS + 1, "x"), report_of(&item, 1, 1, longest),
                                      report_of(&item, 1, 1, NULL)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct progress_record set[] = {report_of(&item, 1, 1, "right"), wrong[i]};
        assert_int_equal(store_write_progress(scene->store, set, 2, &scene->error), WEIR_MISUSE);
    }
    assert_int_equal(count_reports(scene, id), 0);
    longest[PROGRESS_TEXT_MAX] = '\0';
    write_one(scene, report_of(&item, 1, 1, longest));
    assert_report(scene, id, 1, 0.0001, longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(the_newest_report_of_an_attempt_is_shown),
        SCENE_TEST(a_set_has_reports_of_many_steps),
        SCENE_TEST(a_report_without_its_claim_changes_nothing),
        SCENE_TEST(the_end_of_an_attempt_removes_its_report_alone),
        SCENE_TEST(a_later_claim_does_not_show_the_report_of_a_former_one),
        SCENE_TEST(a_report_goes_with_its_execution),
        SCENE_TEST(wrong_reports_are_refused_whole),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
