/* An engine on a virtual clock, a service in memory, and the last report of each kind: the scene of the tests of this
 * folder.
 *
 * One thread. For test programs of one file: every function is static.
 */
#ifndef WEIR_TESTS_UNIT_ENGINE_TEMPORAL_TEMPORAL_SCENE_H
#define WEIR_TESTS_UNIT_ENGINE_TEMPORAL_TEMPORAL_SCENE_H

#include "support/test.h"

#include "engine/temporal/decode.h"
#include "engine/temporal/temporal_internal.h"
#include "support/fake_temporal.h"

enum { REPORT_KINDS = REPORT_ENGINE_SOUND + 1, TURNS_MAX = 100000000 };
#define ID_ONE "019aa000-0000-7000-8000-000000000001"
#define ID_TWO "019aa000-0000-7000-8000-000000000002"
#define SECOND_US MICROSECONDS_PER_SECOND
#define HOUR_US (3600 * SECOND_US)
#define SCENE_PARAMS "{\"customer\": 7}"

struct scene {
    struct clock clock;
    int64_t now_us;
    struct fake_temporal *service;
    struct engine *engine;
    struct report *last[REPORT_KINDS];
    size_t counts[REPORT_KINDS];
};

static inline int64_t scene_now(void *context)
{
    return ((struct scene *)context)->now_us;
}

static inline void scene_take_report(void *context, struct report *report)
{
    struct scene *scene = context;
    report_free(scene->last[report->kind]);
    scene->last[report->kind] = report;
    scene->counts[report->kind]++;
}

/* `codec`: NULL = the engine has none. */
static inline void open_scene_with(struct scene *scene, struct temporal_options options, const struct codec_wire *codec)
{
    memset(scene, 0, sizeof *scene);
    scene->now_us = 1000 * SECOND_US;
    scene->clock = (struct clock){.wall_us = scene_now, .boot_us = scene_now, .context = scene};
    scene->service = fake_temporal_open(&scene->clock);
    options.clock = &scene->clock;
    struct temporal_wire wire = fake_temporal_wire(scene->service);
    if (codec != NULL) {
        wire.codec = *codec;
    }
    assert_int_equal(temporal_open_on(&options, &wire, &scene->engine, NULL), WEIR_OK);
    engine_set_sink(scene->engine, (struct report_sink){.report = scene_take_report, .context = scene});
}

static inline void open_scene(struct scene *scene)
{
    open_scene_with(scene, (struct temporal_options){.starts_max = 64}, NULL);
}

static inline void close_scene(struct scene *scene)
{
    engine_close(scene->engine);
    assert_true(fake_temporal_starts_are_equal(scene->service));
    fake_temporal_close(scene->service);
    for (size_t i = 0; i < REPORT_KINDS; i++) {
        report_free(scene->last[i]);
    }
}

/* Lets `us` pass; the engine does its work at each due time. */
static inline void pass_time(struct scene *scene, int64_t us)
{
    int64_t end_us = scene->now_us + us;
    int turns = 0;
    for (int64_t next_us = engine_step(scene->engine); next_us <= end_us; next_us = engine_step(scene->engine)) {
        scene->now_us = next_us > scene->now_us ? next_us : scene->now_us;
        assert_true(++turns < TURNS_MAX);
    }
    scene->now_us = end_us;
    (void)engine_step(scene->engine);
}

static inline struct engine_start start_of(const char *id)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "onboard",
                                 .version = 1,
                                 .definition_id = 1,
                                 .definition = "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\"}}",
                                 .params = SCENE_PARAMS,
                                 .params_length = strlen(SCENE_PARAMS),
                                 .fence = 5,
                                 .start_number = 1};
    memcpy(start.id, id, sizeof start.id);
    return start;
}

static inline void start_one(struct scene *scene, const char *id)
{
    struct engine_start start = start_of(id);
    assert_int_equal(engine_start(scene->engine, &start, NULL), WEIR_OK);
}

static inline size_t count_reports(const struct scene *scene, enum report_kind kind)
{
    return scene->counts[kind];
}

static inline size_t count_all_reports(const struct scene *scene)
{
    size_t count = 0;
    for (size_t i = 0; i < REPORT_KINDS; i++) {
        count += scene->counts[i];
    }
    return count;
}

/* The last report of the kind; it must be there. */
static inline const struct report *last_report(const struct scene *scene, enum report_kind kind)
{
    if (scene->last[kind] == NULL) {
        fail_msg("no report of kind %d", (int)kind);
    }
    return scene->last[kind];
}

static inline void start_and_follow(struct scene *scene, const char *id)
{
    size_t before = count_reports(scene, REPORT_STARTED);
    start_one(scene, id);
    pass_time(scene, SECOND_US);
    assert_int_equal(count_reports(scene, REPORT_STARTED), before + 1);
}

/* The start of this workflow id as the service got it; the caller frees it. */
static inline TemporalApi__StartWorkflowExecutionRequest *read_sent_start(const struct scene *scene, const char *id)
{
    struct bytes sent = fake_temporal_start_of(scene->service, id);
    TemporalApi__StartWorkflowExecutionRequest *request =
        temporal_api__start_workflow_execution_request__unpack(NULL, sent.length, sent.data);
    assert_non_null(request);
    return request;
}

/* The payload of a memo field, search attribute or header; it must be there. */
static inline const TemporalApi__Payload *find_payload(const TemporalApi__PayloadMap *map, const char *key)
{
    for (size_t i = 0; map != NULL && i < map->n_fields; i++) {
        if (strcmp(map->fields[i]->key, key) == 0) {
            return map->fields[i]->value;
        }
    }
    fail_msg("no field %s", key);
    return NULL;
}

/* The payload has this encoding, and these bytes. */
static inline void assert_payload(const TemporalApi__Payload *payload, const char *encoding, const char *text)
{
    assert_true(payload_has_encoding(payload, encoding));
    assert_int_equal(payload->data.len, strlen(text));
    assert_memory_equal(payload->data.data, text, strlen(text));
}

#endif
