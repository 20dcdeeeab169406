package dev.weir.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import dev.weir.testing.Front;
import dev.weir.testing.Programs;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A worker and the answers that a node, or a proxy in front of it, gives at bad moments. */
class WorkerAnswersTest {
  private static final Duration LONG = Duration.ofHours(1);
  // A heartbeat comes after a third of it.
  private static final Duration HEARTBEATS_OF_SECONDS = Duration.ofSeconds(15);

  /** A request of the worker. */
  private record Sent(String verb, JsonNode item) {}

  private record Answer(int status, String body) {}

  private final BlockingQueue<Answer> claims = new LinkedBlockingQueue<>();

  /** The answers to the next reports of each kind. Behind them, reports are accepted. */
  private final Map<String, Queue<Answer>> answers =
      Map.of(
          "heartbeat", new ConcurrentLinkedQueue<>(),
          "complete", new ConcurrentLinkedQueue<>(),
          "fail", new ConcurrentLinkedQueue<>());

  private final BlockingQueue<Sent> sent = new LinkedBlockingQueue<>();
  private final BlockingQueue<String> begun = new LinkedBlockingQueue<>();
  private final Front front = new Front(this::answer);
  private Worker worker;

  @AfterEach
  void end() {
    if (worker != null) {
      worker.stop(Duration.ZERO);
    }
    front.close();
  }

  private void answer(HttpExchange exchange) throws IOException {
    String path = exchange.getRequestURI().getPath();
    String verb = path.substring(path.indexOf(':') + 1);
    JsonNode body = Json.WIRE.readTree(exchange.getRequestBody());
    Answer answer;
    if (verb.equals("claim") && body.path("max").intValue() == 0) {
      answer = new Answer(200, "{\"tasks\":[],\"lease_us\":1000000,\"waited_us\":0}");
    } else if (verb.equals("claim")) {
      try {
        answer = claims.take();
      } catch (InterruptedException e) {
        exchange.close();
        return;
      }
    } else {
      JsonNode item = body.path("tasks").path(0);
      answer = answers.get(verb).poll();
      if (answer == null) {
        answer =
            new Answer(
                200, "{\"tasks\":[{\"task\":" + item.path("task") + ",\"verdict\":\"accepted\"}]}");
      }
      sent.add(new Sent(verb, item));
    }
    Front.answer(exchange, answer.status(), answer.body());
  }

  private static Answer refusal(int status) {
    return new Answer(
        status, "{\"status\":" + status + ",\"code\":\"refused\",\"detail\":\"not so\"}");
  }

  private void give(String task, Duration lease) {
    String text =
        "{\"tasks\":[{\"task\":\"%s\",\"handler\":\"job\",\"attempt\":1}],\"lease_us\":%d,\"waited_us\":0}";
    claims.add(new Answer(200, String.format(text, task, lease.toNanos() / 1000)));
  }

  private void work(TaskHandler handler) {
    worker =
        Worker.builder(front.client().build())
            .slots(1)
            .handle(
                "job",
                task -> {
                  begun.add(task.id());
                  return handler.handle(task);
                })
            .build();
    worker.start();
  }

  private static <T> T take(BlockingQueue<T> queue) throws InterruptedException {
    T taken = queue.poll(Programs.MOST.toSeconds(), TimeUnit.SECONDS);
    assertTrue(taken != null, "waited in vain");
    return taken;
  }

  private List<String> verbsUntilItHasNoTask() throws InterruptedException {
    take(begun);
    Programs.await("the end of the task", () -> worker.running() == 0);
    return sent.stream().map(Sent::verb).toList();
  }

  @Test
  void aTaskWhoseLeaseIsOverDoesNotBegin() throws Exception {
    give("late", Duration.ofNanos(1000));
    give("timely", LONG);
    work(task -> null);
    assertEquals("timely", take(begun));
    assertTrue(begun.isEmpty());
  }

  @Test
  void aReportIsRepeatedAfterARefusalThatMayPass() throws Exception {
    for (int status : List.of(401, 403, 404, 500)) {
      answers.get("complete").add(refusal(status));
    }
    give("one", LONG);
    work(task -> "kept");
    assertEquals(
        List.of("complete", "complete", "complete", "complete", "complete"),
        verbsUntilItHasNoTask());
    assertTrue(begun.isEmpty(), "the step has run twice");
  }

  @Test
  void aClaimThatIsRefusedForAMomentIsRepeated() throws Exception {
    claims.add(refusal(500));
    give("one", LONG);
    work(task -> null);
    assertEquals("one", take(begun));
  }

  @Test
  void anOutputThatIsRefusedIsAFailure() throws Exception {
    answers.get("complete").add(refusal(413));
    give("one", LONG);
    work(task -> "kept");
    assertEquals(List.of("complete", "fail"), verbsUntilItHasNoTask());
    JsonNode item = sent.stream().skip(1).findFirst().orElseThrow().item();
    assertEquals("handler_bad_output", item.path("error_code").asText());
    assertFalse(item.path("retry").asBoolean(true));
  }

  @Test
  void aFailureThatIsRefusedIsReportedWithoutItsDetails() throws Exception {
    answers.get("fail").add(refusal(400));
    give("one", LONG);
    work(
        task -> {
          throw TaskFailure.retryAfter(Duration.ofDays(1), "busy", "later");
        });
    assertEquals(List.of("fail", "fail"), verbsUntilItHasNoTask());
    assertEquals("busy", take(sent).item().path("error_code").asText());
    JsonNode bare = take(sent).item();
    assertEquals("one", bare.path("task").asText());
    assertTrue(bare.path("retry").asBoolean());
    assertTrue(bare.path("error").asText().contains("not so"), bare.toString());
    assertEquals(3, bare.size(), bare.toString());
  }

  @Test
  void aFailureWithoutDetailsThatIsRefusedIsLeftToTheLease() throws Exception {
    answers.get("fail").add(refusal(400));
    answers.get("fail").add(refusal(400));
    give("one", LONG);
    work(
        task -> {
          throw TaskFailure.fail("busy", "never");
        });
    assertEquals(List.of("fail", "fail"), verbsUntilItHasNoTask());
    assertFalse(sent.stream().anyMatch(each -> each.item().path("retry").asBoolean(true)));
  }

  /** An exception of a class that has a mistake of its own. */
  private static final class Textless extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final boolean isThrown;

    Textless(boolean isThrown) {
      this.isThrown = isThrown;
    }

    @Override
    public String toString() {
      if (isThrown) {
        throw new UnsupportedOperationException("no text");
      }
      return null;
    }
  }

  @Test
  void anExceptionWithoutATextIsReported() throws Exception {
    for (boolean isThrown : List.of(false, true)) {
      give("one", LONG);
      if (worker == null) {
        work(
            task -> {
              throw new Textless(!sent.isEmpty());
            });
      }
      assertEquals(isThrown ? List.of("fail", "fail") : List.of("fail"), verbsUntilItHasNoTask());
    }
    assertTrue(take(sent).item().path("error").asText().contains("Textless"));
    assertTrue(take(sent).item().path("error").asText().contains("Textless"));
  }

  @Test
  void aCodeWithHalfALetterIsReported() throws Exception {
    give("one", LONG);
    work(
        task -> {
          throw TaskFailure.fail("a\ud800", "half");
        });
    assertEquals(List.of("fail"), verbsUntilItHasNoTask());
    assertEquals("a?", take(sent).item().path("error_code").asText());
  }

  @Test
  void aDelayIsAtMostThatOfANode() {
    TaskFailure.retryAfter(Duration.ofDays(365), "busy", "next year");
    assertThrows(
        IllegalArgumentException.class,
        () -> TaskFailure.retryAfter(Duration.ofDays(365).plusNanos(1), "busy", "too late"));
  }

  /** The lines that a request carries, at their place. */
  private static String log(JsonNode item) {
    StringBuilder text = new StringBuilder(item.path("log_at").asText("none") + ":");
    item.path("log").forEach(part -> text.append(part.path("text").asText()));
    return text.toString();
  }

  @Test
  void linesAreRepeatedUntilTheyAreAccepted() throws Exception {
    answers.get("heartbeat").add(refusal(500));
    answers.get("complete").add(refusal(500));
    CountDownLatch goOn = new CountDownLatch(1);
    give("one", HEARTBEATS_OF_SECONDS);
    work(
        task -> {
          task.log("é1");
          goOn.await();
          task.log("2");
          return null;
        });
    assertEquals("0:é1\n", log(take(sent).item()));
    assertEquals("0:é1\n", log(take(sent).item()), "the heartbeat behind the refused one");
    assertEquals("none:", log(take(sent).item()), "the heartbeat behind the accepted one");
    goOn.countDown();
    Sent next = take(sent);
    while (log(next.item()).equals("none:")) {
      next = take(sent); // a heartbeat that came before the line
    }
    assertEquals("4:2\n", log(next.item()));
    if (next.verb().equals("complete")) {
      assertEquals("4:2\n", log(take(sent).item()), "the report behind the refused one");
    }
  }

  @Test
  void heartbeatsWithoutAnAnswerAreLoggedOnce() throws Exception {
    BlockingQueue<String> warnings = new LinkedBlockingQueue<>();
    Handler handler = collect(Level.WARNING, "no heartbeat", warnings);
    Logger logger = Logger.getLogger(Worker.class.getName());
    logger.addHandler(handler);
    CountDownLatch goOn = new CountDownLatch(1);
    try {
      Answer accepted =
          new Answer(200, "{\"tasks\":[{\"task\":\"one\",\"verdict\":\"accepted\"}]}");
      answers.get("heartbeat").addAll(List.of(refusal(500), refusal(500), accepted, refusal(500)));
      give("one", HEARTBEATS_OF_SECONDS);
      work(
          task -> {
            goOn.await();
            return null;
          });
      for (int i = 0; i < 5; i++) {
        assertEquals("heartbeat", take(sent).verb());
      }
      assertEquals(2, warnings.size(), warnings.toString());
    } finally {
      goOn.countDown();
      logger.removeHandler(handler);
    }
  }

  /** Collects the lines of the log that have the level and the text. */
  private static Handler collect(Level level, String text, Queue<String> lines) {
    return new Handler() {
      @Override
      public void publish(LogRecord line) {
        if (line.getLevel() == level && line.getMessage().contains(text)) {
          lines.add(new SimpleFormatter().formatMessage(line));
        }
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
  }

  @Test
  void aWorkerLogsItsStartAndTheEndOfAnOutage() throws Exception {
    BlockingQueue<String> starts = new LinkedBlockingQueue<>();
    BlockingQueue<String> outages = new LinkedBlockingQueue<>();
    List<Handler> handlers =
        List.of(
            collect(Level.INFO, "claims tasks", starts),
            collect(Level.WARNING, "no claim", outages));
    Logger logger = Logger.getLogger(Worker.class.getName());
    handlers.forEach(logger::addHandler);
    try {
      give("one", LONG);
      give("two", LONG);
      claims.addAll(List.of(refusal(503), refusal(503)));
      give("three", LONG);
      work(task -> null);
      for (String task : List.of("one", "two", "three")) {
        assertEquals(task, take(begun));
      }
      assertEquals(2, starts.size(), starts.toString());
      assertTrue(
          starts.peek().contains(worker.name()) && starts.peek().endsWith("for [job]"),
          starts.peek());
      assertEquals(1, outages.size(), outages.toString());
    } finally {
      handlers.forEach(logger::removeHandler);
    }
  }
}
