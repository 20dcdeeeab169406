/* The addon's entry: a table of functions becomes the exports of the module.
 *
 * The addon has no global state, so that each worker thread of Node may load it: stores, nodes and calls belong to the
 * thread that made them. An external of one thread cannot reach another, and each thread has its own table of calls.
 */
#include "binding.h"

static napi_value get_version(napi_env env, napi_callback_info unused)
{
    (void)unused;
    return make_text(env, weir_version());
}

static void add_function(napi_env env, napi_value exports, const char *name, napi_callback callback, const void *data)
{
    napi_value function = NULL;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, (void *)(uintptr_t)data, &function) == napi_ok) {
        (void)napi_set_named_property(env, exports, name, function);
    }
}

NAPI_MODULE_INIT()
{
    static const struct {
        const char *name;
        napi_callback callback;
    } functions[] = {{"version", get_version},           {"createStore", create_store},
                     {"createNode", create_node},        {"answerDone", answer_done},
                     {"answerRetry", answer_retry},      {"answerFail", answer_fail},
                     {"callState", get_call_state},      {"variable", get_variable},
                     {"setVariable", set_variable},      {"startChild", start_child},
                     {"answerNext", answer_next},        {"answerNextAt", answer_next_at},
                     {"answerWait", answer_wait},        {"answerWaitChildren", answer_wait_children},
                     {"isCancelled", is_call_cancelled}, {"deliverMore", deliver_more},
                     {"abandonCalls", abandon_calls},    {"log", log_call},
                     {"progress", report_progress},      {"secret", get_secret}};
    if (!handles_open(env)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        add_function(env, exports, functions[i].name, functions[i].callback, NULL);
    }
    for (size_t i = 0; i < store_method_count; i++) {
        add_function(env, exports, store_methods[i].name, start_task, &store_methods[i]);
    }
    for (size_t i = 0; i < list_method_count; i++) {
        add_function(env, exports, list_methods[i].name, start_task, &list_methods[i]);
    }
    for (size_t i = 0; i < node_method_count; i++) {
        add_function(env, exports, node_methods[i].name, start_task, &node_methods[i]);
    }
    return exports;
}
