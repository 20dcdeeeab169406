/* Enqueues one execution for each line "WORKSPACE WORKFLOW" of its input, as a program with the library does: without an
 * idempotency key and without an id of its own.
 *
 * usage: enqueue_program STORE
 *
 * Answers each line with one: the id; `unknown HINT` where the store did not confirm it; `refused NAME` for everything
 * else, which has changed nothing.
 */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

static void answer(struct weir *weir, const char *workspace, const char *workflow)
{
    char id[WEIR_ID_SIZE];
    struct weir_error error;
    struct weir_request request = {.workspace = workspace, .workflow = workflow};
    enum weir_status status = weir_enqueue(weir, &request, id, &error);
    if (status == WEIR_OK) {
        (void)printf("%s\n", id);
    } else if (status == WEIR_COMMIT_UNKNOWN) {
        (void)printf("unknown %s\n", error.hint);
    } else {
        (void)printf("refused %s\n", weir_status_name(status));
    }
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[512];
    struct weir *weir = NULL;
    struct weir_error error;
    if (argc != 2) {
        (void)fprintf(stderr, "usage: enqueue_program STORE\n");
        return 2;
    }
    if (weir_open(argv[1], NULL, &weir, &error) != WEIR_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *rest = NULL;
        const char *workspace = strtok_r(line, " \n", &rest);
        const char *workflow = strtok_r(NULL, " \n", &rest);
        if (workspace == NULL || workflow == NULL) {
            (void)fprintf(stderr, "a line needs a workspace and a workflow\n");
            return 2;
        }
        answer(weir, workspace, workflow);
    }
    weir_close(weir);
    return 0;
}
