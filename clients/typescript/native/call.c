/* The requests of a function about its open call that answer nothing: its log, its progress, its secrets.
 *
 * Only the event loop's thread answers a call that has a handle, so the call stays open meanwhile. After its end nothing
 * happens.
 */
#include "binding.h"

#include <math.h>

/* log(call, text, stream): adds text to the log of the attempt. */
napi_value log_call(napi_env env, napi_callback_info info)
{
    struct argument arguments[2];
    struct weir_call *call = read_open_call(env, info, "si", arguments);
    if (call != NULL) {
        const struct argument *text = &arguments[0];
        weir_call_output(call, (enum weir_stream)arguments[1].number, text->text, text->length);
        free_arguments(arguments, 2);
    }
    return NULL;
}

/* progress(call, millionths, text): how far the function is; less than 0 = unknown. */
napi_value report_progress(napi_env env, napi_callback_info info)
{
    struct argument arguments[2];
    struct weir_call *call = read_open_call(env, info, "iz", arguments);
    if (call != NULL) {
        int64_t millionths = arguments[0].number;
        weir_call_progress(call, millionths < 0 ? (double)NAN : (double)millionths / 1e6, arguments[1].text);
        free_arguments(arguments, 2);
    }
    return NULL;
}

/* secret(call, name): the value of a secret that the step lists, else null. */
napi_value get_secret(napi_env env, napi_callback_info info)
{
    struct argument name;
    struct weir_call *call = read_open_call(env, info, "s", &name);
    if (call == NULL) {
        return NULL;
    }
    const char *value = weir_call_secret(call, name.text);
    free_arguments(&name, 1);
    return value == NULL ? make_null(env) : make_text(env, value);
}
