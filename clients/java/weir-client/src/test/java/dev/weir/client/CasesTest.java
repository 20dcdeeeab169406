package dev.weir.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.weir.testing.Programs;
import dev.weir.testing.WeirNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The cases of all clients: tests/workers/cases.json. */
class CasesTest {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final BlockingQueue<String> BEGUN = new LinkedBlockingQueue<>();
  private static final BlockingQueue<StopCause> STOPPED = new LinkedBlockingQueue<>();
  private static WeirNode node;
  private static WeirClient client;
  private static Worker worker;

  @BeforeAll
  static void start() {
    node = WeirNode.start();
    node.kill();
    node.write("weir.yaml", "http.task_lease: 60s\n");
    node.serve();
    client = node.client();
    worker = startWorker();
  }

  private static Worker startWorker() {
    Worker started = Worker.builder(client).handle("scripted", CasesTest::scripted).build();
    started.start();
    return started;
  }

  @AfterAll
  static void end() {
    worker.close();
    node.close();
  }

  private static Object scripted(Task task) throws Exception {
    JsonNode acts = task.input().path("acts");
    BEGUN.add(task.executionId());
    Map.Entry<String, JsonNode> act =
        acts.get(Math.min(task.attempt(), acts.size()) - 1).properties().iterator().next();
    JsonNode value = act.getValue();
    String code = value.path("code").asText();
    String error = value.path("error").asText();
    switch (act.getKey()) {
      case "complete":
        return value;
      case "raise":
        throw new IllegalStateException(value.asText());
      case "fail":
        throw TaskFailure.fail(code, error);
      case "retry":
        if (value.has("after_us")) {
          Duration delay = Duration.ofNanos(value.path("after_us").longValue() * 1000);
          throw TaskFailure.retryAfter(delay, code, error);
        }
        throw TaskFailure.retry(code, error);
      case "report_progress":
        String text = value.path("text").textValue();
        task.progress(
            value.path("fraction").isNull() ? Double.NaN : value.path("fraction").asDouble(),
            text == null ? null : text.repeat(value.path("repeat").asInt(1)));
        STOPPED.add(task.awaitStop(Programs.MOST).orElseThrow());
        return null;
      case "await_cancel":
        STOPPED.add(task.awaitStop(Programs.MOST).orElseThrow());
        return null;
      case "await_stop":
        assertEquals(StopCause.LOST, task.awaitStop(Programs.MOST).orElseThrow());
        throw new IllegalStateException("stopped");
      default:
        throw TaskFailure.fail("unknown_act", "this client does not know the act " + act);
    }
  }

  @TestFactory
  List<DynamicTest> cases() throws IOException {
    JsonNode cases =
        MAPPER
            .readTree(Programs.source().resolve("tests/workers/cases.json").toFile())
            .path("cases");
    assertFalse(cases.isEmpty());
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode each : cases) {
      String workflow = "case-" + tests.size();
      tests.add(DynamicTest.dynamicTest(each.path("name").asText(), () -> check(each, workflow)));
    }
    return tests;
  }

  private static void check(JsonNode each, String workflow) throws InterruptedException {
    ObjectNode step = MAPPER.createObjectNode().put("handler", "scripted");
    if (each.has("workflow")) {
      step.setAll((ObjectNode) each.get("workflow"));
    }
    node.apply(workflow, MAPPER.convertValue(step, new TypeReference<Map<String, Object>>() {}));
    String id =
        client.enqueue(EnqueueRequest.of("acme", workflow, Map.of("acts", each.path("acts")))).id();
    if (each.has("progress")) {
      awaitProgress(id, each.path("progress").toString());
    }
    if (each.path("cancel").asBoolean()) {
      assertEquals(id, awaitBegin(id));
      client.cancel(id, "a test");
    }
    long stopped = System.nanoTime();
    if (each.path("stop").asBoolean()) {
      assertEquals(id, awaitBegin(id));
      assertFalse(worker.stop(Duration.ZERO));
      worker = startWorker();
    }
    Execution execution = client.waitFor(id, Programs.MOST);
    if (each.path("stop").asBoolean()) {
      Duration took = Duration.ofNanos(System.nanoTime() - stopped);
      assertTrue(took.toSeconds() < 20, () -> "the step ran again after " + took);
    }
    JsonNode act = each.path("acts").path(0);
    if (act.has("await_cancel") || act.has("report_progress")) {
      assertEquals(StopCause.CANCELLED, STOPPED.poll(Programs.MOST.toSeconds(), TimeUnit.SECONDS));
    }
    assertEquals(1, execution.steps().size());
    ObjectNode got = execution.steps().get(0).deepCopy();
    got.put("status", execution.status().name());
    ObjectNode shown = MAPPER.createObjectNode();
    each.path("expect").fieldNames().forEachRemaining(key -> shown.set(key, got.get(key)));
    assertEquals(each.path("expect").toString(), shown.toString());
  }

  private static void awaitProgress(String id, String report) throws InterruptedException {
    String shown = "";
    for (long end = System.nanoTime() + Programs.MOST.toNanos();
        !shown.equals(report) && System.nanoTime() < end; ) {
      Thread.sleep(20);
      JsonNode first = client.get(id).json().path("progress").path(0);
      ObjectNode got = MAPPER.createObjectNode();
      got.set("fraction", first.path("fraction"));
      got.set("text", first.path("text"));
      shown = got.toString();
    }
    assertEquals(report, shown);
  }

  private static String awaitBegin(String id) throws InterruptedException {
    String begun;
    do {
      begun = BEGUN.poll(Programs.MOST.toSeconds(), TimeUnit.SECONDS);
    } while (begun != null && !begun.equals(id));
    return begun;
  }
}
