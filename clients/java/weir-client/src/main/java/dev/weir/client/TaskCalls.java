package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** The five requests of a worker, and the node that it claims at. Any thread may call. */
final class TaskCalls {
  static final String ACCEPTED = "accepted";
  static final String CANCELLED = "cancelled";
  static final String TASK_LOST = "task_lost";
  static final String TASK_UNKNOWN = "task_unknown";

  /** Each call but the wait of a claim ends after this time. */
  static final Duration LIMIT = Duration.ofSeconds(10);

  private static final Duration LEAVE_LIMIT = Duration.ofSeconds(2);

  private final Transport transport;
  private final String worker;
  private final List<String> handlers;
  private final String executorGroup;
  private int home;

  /** The nodes that may know the worker. */
  private final Set<Integer> known = ConcurrentHashMap.newKeySet();

  TaskCalls(Transport transport, String worker, Collection<String> handlers, String executorGroup) {
    this.transport = transport;
    this.worker = worker;
    this.handlers = List.copyOf(handlers);
    this.executorGroup = executorGroup;
    this.home = ThreadLocalRandom.current().nextInt(transport.nodes());
  }

  int nodes() {
    return transport.nodes();
  }

  String url(int node) {
    return transport.url(node);
  }

  /** The node to claim at. */
  synchronized int home() {
    return home;
  }

  /** Claims at the next node from now on, unless the worker has left this one already. */
  synchronized void leave(int node) {
    if (home == node) {
      home = (node + 1) % transport.nodes();
    }
  }

  private ObjectNode claimBody(int max, Duration wait) {
    ObjectNode body = Json.WIRE.createObjectNode().put("worker", worker);
    handlers.forEach(body.putArray("handlers")::add);
    body.put("max", max).put("wait_us", wait.toNanos() / 1000);
    if (executorGroup != null) {
      body.put("executor_group", executorGroup);
    }
    return body;
  }

  JsonNode claim(int node, int max, Duration wait) {
    known.add(node);
    return transport.call(node, "/v1/tasks:claim", claimBody(max, wait), wait.plus(LIMIT));
  }

  /** Makes the handlers known to a node, without waiting for its answer. */
  void announce(int node, Duration limit) {
    byte[] body = transport.write(claimBody(0, Duration.ZERO));
    transport
        .send(node, "POST", "/v1/tasks:claim", body, Map.of(), limit)
        .whenDone(limit, (answer, failure) -> {});
  }

  /**
   * Tells the nodes that the worker has ended, so that other workers get at once the tasks that it
   * does not keep. A node that does not answer waits for the end of the leases.
   */
  void leaveAll(Collection<String> keeps) {
    ObjectNode body = Json.WIRE.createObjectNode().put("worker", worker);
    keeps.forEach(body.putArray("keeps")::add);
    byte[] text = transport.write(body);
    CountDownLatch answers = new CountDownLatch(known.size());
    for (int node : List.copyOf(known)) {
      transport
          .send(node, "POST", "/v1/tasks:leave", text, Map.of(), LEAVE_LIMIT)
          .whenDone(LEAVE_LIMIT, (answer, failure) -> answers.countDown());
    }
    try {
      answers.await(LEAVE_LIMIT.toMillis(), TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private ObjectNode reportBody(List<ObjectNode> items) {
    ObjectNode body = Json.WIRE.createObjectNode().put("worker", worker);
    items.forEach(body.putArray("tasks")::add);
    return body;
  }

  /** Receives the verdicts of the tasks that the node has answered for. */
  interface Verdicts {
    void accept(Map<String, String> verdicts, WeirException failure);
  }

  /** Renews leases, without waiting for the answer. */
  void heartbeat(int node, List<ObjectNode> items, Duration limit, Verdicts then) {
    List<String> tasks = items.stream().map(item -> item.path("task").textValue()).toList();
    transport
        .send(
            node,
            "POST",
            "/v1/tasks:heartbeat",
            transport.write(reportBody(items)),
            Map.of(),
            limit)
        .whenDone(
            limit,
            (answer, failure) -> {
              try {
                then.accept(verdicts(tasks, answer, failure), null);
              } catch (WeirException e) {
                then.accept(Map.of(), e);
              }
            });
  }

  /** Reports the end of one task and returns the verdict. {@code verb} is complete or fail. */
  String report(int node, String verb, ObjectNode item, Duration limit) {
    String task = item.path("task").textValue();
    JsonNode answer = null;
    WeirException failure = null;
    try {
      answer = transport.call(node, "/v1/tasks:" + verb, reportBody(List.of(item)), limit);
    } catch (WeirException e) {
      failure = e;
    }
    String verdict = verdicts(List.of(task), answer, failure).get(task);
    if (verdict == null) {
      throw WeirException.local(
          WeirException.BAD_ANSWER, "the answer of " + url(node) + " has no verdict", null);
    }
    return verdict;
  }

  /** The status of the answer is the verdict where the request had one task. */
  private static Map<String, String> verdicts(
      List<String> tasks, JsonNode answer, WeirException failure) {
    if (failure != null) {
      boolean isVerdict = failure.code().equals(TASK_LOST) || failure.code().equals(TASK_UNKNOWN);
      if (tasks.size() == 1 && isVerdict) {
        return Map.of(tasks.get(0), failure.code());
      }
      throw failure;
    }
    Map<String, String> verdicts = new HashMap<>();
    for (JsonNode each : answer.path("tasks")) {
      verdicts.put(each.path("task").asText(), each.path("verdict").asText());
    }
    return verdicts;
  }
}
