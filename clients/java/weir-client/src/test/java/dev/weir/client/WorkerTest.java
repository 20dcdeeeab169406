package dev.weir.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.weir.testing.Programs;
import dev.weir.testing.WeirNode;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class WorkerTest {
  private final BlockingQueue<Task> begun = new LinkedBlockingQueue<>();
  private final BlockingQueue<StopCause> stopped = new LinkedBlockingQueue<>();
  private final CountDownLatch goOn = new CountDownLatch(1);
  private WeirNode node;
  private WeirClient client;
  private Worker worker;

  @BeforeEach
  void startNode() {
    node = WeirNode.start();
    client = node.client();
    node.apply("job", Map.of("handler", "job", "retry", Map.of("attempts", 1)));
  }

  @AfterEach
  void end() {
    goOn.countDown();
    if (worker != null) {
      worker.stop(Duration.ZERO);
    }
    node.close();
  }

  private Worker work(TaskHandler handler) {
    worker = Worker.builder(client).slots(4).handle("job", handler).build();
    worker.start();
    return worker;
  }

  private Object untilToldOtherwise(Task task) throws InterruptedException {
    begun.add(task);
    goOn.await();
    return "kept";
  }

  private Object untilStopped(Task task) throws InterruptedException {
    begun.add(task);
    StopCause cause = task.awaitStop(Programs.MOST).orElseThrow();
    stopped.add(cause);
    return null;
  }

  private <T> T take(BlockingQueue<T> queue) throws InterruptedException {
    T taken = queue.poll(Programs.MOST.toSeconds(), TimeUnit.SECONDS);
    assertTrue(taken != null, "waited in vain");
    return taken;
  }

  private String enqueue(Object params) {
    return client.enqueue(EnqueueRequest.of("acme", "job", params)).id();
  }

  private Execution runJob(Object params) {
    return client.waitFor(enqueue(params), Programs.MOST);
  }

  private static String output(Execution execution) {
    return execution.steps().get(0).path("output").toString();
  }

  /** So long that the node is back before it ends, however slow the machine is. */
  private void useLongLease() {
    useLease("5m");
  }

  private void useLease(String lease) {
    node.kill();
    node.write("weir.yaml", "http.task_lease: " + lease + "\n");
    node.serve();
  }

  @Test
  void aReportIsRepeatedUntilANodeAnswers() throws Exception {
    useLongLease();
    work(this::untilToldOtherwise);
    String id = enqueue(Map.of());
    take(begun);
    node.kill();
    goOn.countDown();
    Programs.await("a claim without an answer", () -> worker.problem().isPresent());
    node.serve();
    assertEquals("\"kept\"", output(client.waitFor(id, Programs.MOST)));
    assertTrue(begun.isEmpty(), "the step has run twice");
  }

  @Test
  void aRunOutlivesItsNode() throws Exception {
    useLongLease();
    work(this::untilToldOtherwise);
    String id = enqueue(Map.of());
    take(begun);
    node.kill();
    node.serve();
    Programs.await(
        "the takeover", () -> node.run("show", id, "--json").contains("\"event\":\"step_start\""));
    goOn.countDown();
    Execution execution = client.waitFor(id, Programs.MOST);
    assertEquals(ExecutionStatus.COMPLETED, execution.status());
    assertEquals("\"kept\"", output(execution));
    assertTrue(begun.isEmpty(), "the step has run twice");
  }

  /** On a loaded machine an attempt may lose its lease all the same, but not each of them. */
  @Test
  void heartbeatsRenewTheLease() {
    useLease("3s");
    node.apply("job", Map.of("handler", "job", "retry", Map.of("attempts", 30, "backoff", "1ms")));
    work(
        task -> {
          if (task.awaitStop(Duration.ofSeconds(7)).isPresent()) {
            throw new IllegalStateException("it has lost its lease");
          }
          return "kept";
        });
    assertEquals("\"kept\"", output(runJob(Map.of())));
  }

  @Test
  void aRunEndsWithItsLeaseWhenTheNodeIsDead() throws Exception {
    useLease("3s");
    work(this::untilStopped);
    enqueue(Map.of());
    take(begun);
    node.kill();
    assertEquals(StopCause.LOST, take(stopped));
  }

  @Test
  void aRunEndsWithItsLeaseWhenTheNodeHangs() throws Exception {
    useLease("3s");
    work(this::untilStopped);
    enqueue(Map.of());
    take(begun);
    node.freeze();
    assertEquals(StopCause.LOST, take(stopped));
  }

  @Test
  void aStopDeliversResults() throws Exception {
    useLongLease();
    work(this::untilToldOtherwise);
    String id = enqueue(Map.of());
    take(begun);
    Thread stop = new Thread(() -> worker.stop(Programs.MOST));
    stop.start();
    Programs.await("the end of claims", () -> !worker.isRunning());
    goOn.countDown();
    stop.join(Programs.MOST.toMillis());
    assertFalse(stop.isAlive());
    assertEquals(ExecutionStatus.COMPLETED, client.waitFor(id, Programs.MOST).status());
    worker.awaitEnd();
    assertEquals(0, worker.running());
  }

  @Test
  void aStopWithoutTimeLeavesTasksToOtherWorkers() throws Exception {
    Worker first = work(this::untilStopped);
    String id = enqueue(Map.of());
    take(begun);
    assertFalse(first.stop(Duration.ZERO));
    assertEquals(StopCause.LOST, take(stopped));
    first.awaitEnd();
    work(task -> "attempt " + task.attempt());
    assertEquals("\"attempt 2\"", output(client.waitFor(id, Programs.MOST)));
  }

  @Test
  void anErrorOfTheJvmIsAFailureOfTheTask() {
    work(
        task -> {
          throw new StackOverflowError("too deep");
        });
    Execution execution = runJob(Map.of());
    assertEquals(ExecutionStatus.FAILED, execution.status());
    assertEquals("handler_failed", execution.errorCode());
    assertTrue(execution.error().contains("too deep"), execution.error());
    assertTrue(worker.isRunning());
  }

  @Test
  void anyTextOfAnErrorIsReported() {
    work(
        task -> {
          throw new IllegalStateException("a\0b\ud800c" + "x".repeat(100_000));
        });
    Execution execution = runJob(Map.of());
    assertTrue(execution.error().contains("a?b?cxxx"), execution.error());
  }

  @Test
  void anOutputThatIsNoJsonIsAFailure() {
    work(task -> new Object());
    assertEquals("handler_bad_output", runJob(Map.of()).errorCode());
  }

  @Test
  void anOutputThatIsTooLargeIsAFailure() {
    work(task -> "x".repeat(1 << 20));
    assertEquals("handler_bad_output", runJob(Map.of()).errorCode());
  }

  @Test
  void aTaskHasTheTraceContextOfItsRequest() {
    work(task -> task.traceparent().orElse("none"));
    assertEquals("\"none\"", output(runJob(Map.of())));
    String context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    String id = client.enqueue(EnqueueRequest.of("acme", "job").withTraceparent(context)).id();
    assertEquals("\"" + context + "\"", output(client.waitFor(id, Programs.MOST)));
  }

  @Test
  void linesOfATaskAreInItsLog() throws Exception {
    useLongLease();
    work(
        task -> {
          task.log("first\0\ud800 lines");
          begun.add(task);
          goOn.await();
          task.log("x" + "é".repeat(100_000));
          return "kept";
        });
    String id = enqueue(Map.of());
    take(begun);
    Programs.await(
        "a line of a task that runs", () -> node.run("logs", id).contains("first?? lines"));
    goOn.countDown();
    assertEquals(ExecutionStatus.COMPLETED, client.waitFor(id, Programs.MOST).status());
    String log = node.run("logs", id);
    assertEquals(log.indexOf("first"), log.lastIndexOf("first"), "the line is there twice");
    assertTrue(log.contains("é".repeat(30_000)), log);
    assertFalse(log.contains("\ufffd"), "half a letter");
    assertTrue(log.contains("bytes are left out"), log);
  }

  @Test
  void linesBeyondThoseOfARequestAreLeftOut() {
    work(
        task -> {
          for (int i = 0; i < 100_000; i++) {
            task.log("line " + i);
          }
          return "kept";
        });
    Execution execution = runJob(Map.of());
    assertEquals(ExecutionStatus.COMPLETED, execution.status(), execution.error());
    String log = node.run("logs", execution.id());
    assertTrue(log.contains("line 900\n"), log);
    assertTrue(log.contains("bytes are left out"), log);
  }

  record Mail(String to, Instant at, List<Integer> copies) {}

  static final class Handlers {
    @WeirHandler("job")
    Map<String, Object> send(Mail mail, Task task) {
      return Map.of(
          "to", mail.to(), "at", mail.at(), "copies", mail.copies(), "attempt", task.attempt());
    }
  }

  @Test
  void aMethodTakesATypedInput() {
    worker = Worker.builder(client).handlers(new Handlers()).build();
    worker.start();
    Mail mail = new Mail("ada", Instant.parse("2030-01-02T03:04:05.678Z"), List.of(1, 2));
    Execution execution = runJob(mail);
    assertEquals(ExecutionStatus.COMPLETED, execution.status(), execution.error());
    var output = execution.steps().get(0).path("output");
    assertEquals("2030-01-02T03:04:05.678Z", output.path("at").asText());
    assertEquals("[1,2]", output.path("copies").toString());
    assertEquals(1, output.path("attempt").asInt());
  }

  @Test
  void anInputOfAnotherTypeIsAFailureWithoutRetry() {
    node.apply("job", Map.of("handler", "job", "retry", Map.of("attempts", 5)));
    worker = Worker.builder(client).handlers(new Handlers()).build();
    worker.start();
    Execution execution = runJob(Map.of("at", "soon"));
    assertEquals("input_invalid", execution.errorCode());
    assertEquals(1, execution.steps().get(0).path("attempt").asInt());
  }

  static final class Interfering {
    @WeirHandler("job")
    void two(String one, String two) {}
  }

  static final class Twice {
    @WeirHandler("job")
    void one() {}

    @WeirHandler("job")
    void two() {}
  }

  @Test
  void mistakesAreNamedBeforeTheStart() {
    Worker.Builder builder = Worker.builder(client);
    assertThrows(IllegalStateException.class, builder::build);
    assertThrows(IllegalArgumentException.class, () -> builder.handlers(new Interfering()));
    assertThrows(IllegalArgumentException.class, () -> builder.handlers(new Twice()));
    assertThrows(IllegalArgumentException.class, () -> builder.handlers("none"));
    assertThrows(IllegalArgumentException.class, () -> builder.slots(0));
    assertThrows(IllegalArgumentException.class, () -> builder.name("x".repeat(129)));
    builder.handle("job", task -> null);
    assertThrows(IllegalArgumentException.class, () -> builder.handle("job", task -> null));
  }

  @Test
  void aRefusalThatNoRepetitionMendsEndsTheWorker() {
    worker =
        Worker.builder(client).executorGroup("no-such-group").handle("job", task -> null).build();
    worker.start();
    WeirException refusal = assertThrows(WeirException.class, worker::awaitEnd);
    assertEquals(404, refusal.status());
    assertFalse(worker.isRunning());
    assertEquals(refusal, worker.failure().orElseThrow());
  }

  @Test
  void aWorkerOutlastsItsNodeAndItsAddresses() {
    client = WeirClient.builder("http://127.0.0.1:1", node.url()).build();
    work(task -> "done");
    assertEquals(ExecutionStatus.COMPLETED, runJob(Map.of()).status());
    node.kill();
    Programs.await("a claim without an answer", () -> worker.problem().isPresent());
    node.serve();
    assertEquals(ExecutionStatus.COMPLETED, runJob(Map.of()).status());
  }
}
