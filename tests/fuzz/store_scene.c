#include "store_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

static struct store_scene *made;

static void remove_all(void)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s%s", made->path, endings[i]);
        (void)unlink(path);
    }
    (void)rmdir(made->folder);
}

static void must(enum weir_status status, const struct weir_error *error)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "the store for the fuzzer: %s\n", error->message);
        exit(2);
    }
}

struct store *store_scene_open(const struct store_scene *scene)
{
    char url[128];
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = NULL;
    (void)snprintf(url, sizeof url, "sqlite:%s", scene->path);
    struct store_options options = {.url = url, .create = true};
    return store_open(&options, &store, &error) == WEIR_OK ? store : NULL;
}

void store_scene_make(struct store_scene *scene)
{
    static const char text[] = "{\"name\":\"hello\",\"steps\":{\"one\":{\"handler\":\"noop\"}}}";
    struct weir_error error = {.status = WEIR_OK};
    struct published published = {0};
    struct workspace_change change = {.name = "acme", .plan = "pro", .paused = -1, .create = true};
    struct node_options node = {.name = "n",
                                .group = "default",
                                .host = "h",
                                .boot_id = "b",
                                .life = "l",
                                .pid = 1,
                                .version = "v",
                                .engine = "scripted",
                                .capacity = 10,
                                .lease_us = 3600000000};
    struct enqueue_request requests[8];
    struct enqueue_result results[8];
    made = scene;
    (void)snprintf(scene->folder, sizeof scene->folder, "%s/weir-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(scene->folder) == NULL) {
        perror("mkdtemp");
        exit(2);
    }
    (void)snprintf(scene->path, sizeof scene->path, "%s/weir.db", scene->folder);
    (void)atexit(remove_all);
    struct store *store = store_scene_open(scene);
    INVARIANT(store != NULL);
    must(store_migrate(store, NULL, &error), &error);
    must(store_set_workspace(store, &change, &error), &error);
    must(store_publish(store, "hello", NULL, text, NULL, &published, &error), &error);
    must(store_node_start(store, &node, &scene->node, &error), &error);
    for (int i = 0; i < 8; i++) {
        requests[i] = (struct enqueue_request){.workspace = "acme", .workflow = "hello"};
    }
    must(store_enqueue(store, requests, 8, results, &error), &error);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(scene->ids[i], sizeof scene->ids[i], "%s", results[i].id);
    }
    store_close(store);
}
