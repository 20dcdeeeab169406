package dev.weir.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.weir.testing.Postgres;
import dev.weir.testing.Programs;
import dev.weir.testing.WeirNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Workers and nodes are killed while executions are enqueued and run. WEIR_TEST_KILLS is the number
 * of kills, WEIR_TEST_SEED draws them. The time limit of the test grows with the kills, because a
 * killed worker holds its tasks until their leases are over.
 */
class FaultsTest {
  private static final int CAP = 3;
  private static final int PER_KILL = 8;
  private static final int KILLS =
      Integer.parseInt(System.getenv().getOrDefault("WEIR_TEST_KILLS", "8"));
  // Three leases of tasks for each kill, on a loaded machine.
  private static final Duration LIMIT =
      Programs.MOST.plus(Duration.ofSeconds(45).multipliedBy(KILLS));
  private static final int KILLS_PER_REPORT = 10;

  @TempDir Path folder;
  private final List<WeirNode> nodes = new ArrayList<>();
  private final List<Process> workers = new ArrayList<>();
  private final Map<Long, Long> killedAt = new HashMap<>();
  private Path effects;
  private Postgres postgres;

  @BeforeEach
  void start() throws IOException {
    effects = Files.createFile(folder.resolve("effects"));
    postgres = new Postgres();
    String store = postgres.database();
    nodes.add(WeirNode.startOn(store, "one"));
    nodes.add(WeirNode.startOn(store, "two"));
    WeirNode first = nodes.get(0);
    first.run("plan", "set", "capped", "--max-concurrent", Integer.toString(CAP), "-q");
    first.run("workspace", "set", "acme", "--plan", "capped", "-q");
    // A retry is no part of the test: an attempt whose worker is killed is none.
    first.apply(
        "job", Map.of("handler", "effect", "retry", Map.of("attempts", 50, "backoff", "1ms")));
    workers.add(startWorker());
    workers.add(startWorker());
  }

  @AfterEach
  void end() {
    workers.forEach(Process::destroyForcibly);
    nodes.forEach(WeirNode::close);
    postgres.close();
  }

  private Process startWorker() {
    List<String> command =
        new ArrayList<>(
            List.of(
                ProcessHandle.current().info().command().orElseThrow(),
                "-Xmx64m",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                WorkerProcess.class.getName(),
                effects.toString()));
    nodes.forEach(node -> command.add(node.url()));
    try {
      return new ProcessBuilder(command)
          .redirectErrorStream(true)
          .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve("workers.log").toFile()))
          .start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Kills a worker in the middle of a run. */
  private void killWorker() throws InterruptedException {
    Set<Long> busy = new HashSet<>();
    Programs.await(
        () -> "a run: " + state(),
        () -> {
          runs().stream()
              .filter(run -> run.end == Long.MAX_VALUE)
              .forEach(run -> busy.add(run.pid));
          return workers.stream().anyMatch(worker -> busy.contains(worker.pid()));
        });
    for (int i = 0; i < workers.size(); i++) {
      Process worker = workers.get(i);
      if (busy.contains(worker.pid())) {
        worker.destroyForcibly().waitFor();
        killedAt.put(worker.pid(), System.nanoTime());
        workers.set(i, startWorker());
        return;
      }
    }
  }

  /** A run of a step: of one attempt in one process. */
  private record Run(
      long pid, String execution, int attempt, long begin, long end, boolean hasEnded) {}

  private List<Run> runs() {
    Map<String, Run> runs = new HashMap<>();
    try {
      // A line that a worker writes at this moment may be there in part.
      String text = Files.readString(effects);
      for (String line : text.substring(0, text.lastIndexOf('\n') + 1).lines().toList()) {
        String[] words = line.split(" ");
        String key = words[0] + " " + words[1] + " " + words[2];
        long time = Long.parseLong(words[5]);
        if (words[4].equals("begin")) {
          Run earlier =
              runs.put(
                  key,
                  new Run(
                      Long.parseLong(words[0]),
                      words[1],
                      Integer.parseInt(words[2]),
                      time,
                      killedAt.getOrDefault(Long.parseLong(words[0]), Long.MAX_VALUE),
                      false));
          assertTrue(earlier == null, "one process has begun an attempt twice: " + line);
        } else {
          Run begun = runs.get(key);
          runs.put(
              key, new Run(begun.pid, begun.execution, begun.attempt, begun.begin, time, true));
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return List.copyOf(runs.values());
  }

  private String state() {
    try {
      WeirNode node = nodes.get(0);
      StringBuilder text = new StringBuilder();
      for (String line :
          node.run("list", "--status", "claimed,dispatched", "-o", "jsonl").lines().toList()) {
        String id = Json.WIRE.readTree(line).path("id").asText();
        text.append(node.run("why", id)).append(node.run("show", id, "--json"));
      }
      return text.append(node.run("list", "--limit", "10"))
          .append(node.run("worker", "list"))
          .append(node.run("node", "list"))
          .append(Files.readString(folder.resolve("workers.log")))
          .toString();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private long ended() {
    return runs().stream().filter(Run::hasEnded).count();
  }

  /** The executions of which a run has ended. */
  private Set<String> done() {
    return runs().stream().filter(Run::hasEnded).map(Run::execution).collect(Collectors.toSet());
  }

  /** Waits for all executions. The kills may have left many, so the limit is for the next end. */
  private void awaitRuns(Set<String> ids) {
    for (int count = done().size(); count < ids.size(); count = done().size()) {
      int before = count;
      Programs.await(() -> "one more run: " + state(), () -> done().size() > before);
    }
  }

  @Test
  @Timeout(value = 1, unit = TimeUnit.DAYS) // LIMIT instead of the limit of a common test
  void killedWorkersAndNodesLoseNothingAndRunNothingTwiceAtATime() {
    assertTimeoutPreemptively(LIMIT, this::killAndCheck);
  }

  private void killAndCheck() throws Exception {
    long seed =
        Long.parseLong(System.getenv().getOrDefault("WEIR_TEST_SEED", "" + System.nanoTime()));
    System.out.println("WEIR_TEST_SEED=" + seed);
    Random random = new Random(seed);
    WeirClient client = WeirClient.builder(nodes.stream().map(WeirNode::url).toList()).build();
    Set<String> ids = ConcurrentHashMap.newKeySet();
    Runnable enqueue =
        () -> {
          for (int i = 0; i < PER_KILL; i++) {
            assertTrue(ids.add(client.enqueue(EnqueueRequest.of("acme", "job")).id()));
          }
        };
    for (int kill = 0; kill < KILLS; kill++) {
      long before = ended();
      CompletableFuture<Void> enqueued = CompletableFuture.runAsync(enqueue);
      if (kill % 2 == 0) {
        killWorker();
      } else {
        WeirNode node = nodes.get(random.nextInt(nodes.size()));
        node.kill();
        node.serve();
      }
      enqueued.join();
      int wanted = random.nextInt(PER_KILL);
      Programs.await(() -> "runs: " + state(), () -> ended() >= before + wanted);
      if ((kill + 1) % KILLS_PER_REPORT == 0) {
        System.out.println(kill + 1 + " kills, " + ended() + " runs of " + ids.size());
      }
    }
    awaitRuns(ids);
    for (String id : ids) {
      assertEquals(ExecutionStatus.COMPLETED, client.waitFor(id, Programs.MOST).status(), id);
    }
    check(ids);
  }

  private void check(Set<String> ids) {
    List<Run> runs = new ArrayList<>(runs());
    runs.sort(Comparator.comparingLong(Run::begin));
    Set<String> attempts = new HashSet<>();
    Set<String> done = new HashSet<>();
    Map<String, Run> last = new HashMap<>();
    for (Run run : runs) {
      assertTrue(attempts.add(run.execution + " " + run.attempt), "a number is used twice: " + run);
      Run before = last.put(run.execution, run);
      assertTrue(
          before == null || before.end <= run.begin, "two runs overlap: " + before + ", " + run);
      if (run.hasEnded) {
        done.add(run.execution);
      }
      long beside = runs.stream().filter(o -> o.begin <= run.begin && o.end > run.begin).count();
      assertTrue(beside <= CAP, beside + " runs at once: " + run);
    }
    assertEquals(ids, done);
  }
}
