package dev.weir.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.weir.testing.Postgres;
import dev.weir.testing.Programs;
import dev.weir.testing.WeirNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;

/**
 * Applications of Spring Boot place orders and ship them while nodes and applications are killed in
 * turn. WEIR_TEST_KILLS is the number of kills, WEIR_TEST_SEED draws them. The verdict is that of
 * {@link RunHistory}, from the records of the applications alone.
 */
class WeirSpringFaultsTest {
  private static final Map<String, Integer> CAPS =
      new TreeMap<>(Map.of("acme", 4, "bolt", 3, "core", 2));
  private static final int PROCESSES = 2;
  private static final int KILLS =
      Integer.parseInt(System.getenv().getOrDefault("WEIR_TEST_KILLS", "10"));
  // Three leases of tasks for each kill, on a loaded machine.
  private static final Duration LIMIT =
      Programs.MOST.plus(Duration.ofSeconds(45).multipliedBy(KILLS));
  private static final Duration LEASE = Duration.ofSeconds(15); // of a task: WeirNode
  private static final int RECORDS_PER_KILL = 40;
  private static final int KILLS_PER_REPORT = 10;

  @TempDir Path folder;
  private final List<WeirNode> nodes = new ArrayList<>();
  private final List<Process> processes = new ArrayList<>();
  private final List<String> names = new ArrayList<>();
  private final Map<String, Long> kills = new HashMap<>();
  private int started;
  private final long seed =
      Long.parseLong(System.getenv().getOrDefault("WEIR_TEST_SEED", "" + System.nanoTime()));
  private Postgres postgres;
  private String database;
  private JdbcTemplate jdbc;

  @BeforeEach
  void start() {
    postgres = new Postgres();
    database = postgres.database();
    nodes.add(WeirNode.startOn(database, "one"));
    nodes.add(WeirNode.startOn(database, "two"));
    URI url = URI.create(database);
    jdbc =
        new JdbcTemplate(
            new SimpleDriverDataSource(
                new org.postgresql.Driver(), jdbcUrl(url), url.getUserInfo(), ""));
    ShopProcess.TABLES.forEach(jdbc::execute);
    CAPS.forEach(
        (workspace, cap) -> {
          String plan = "of-" + workspace;
          nodes.get(0).run("plan", "set", plan, "--max-concurrent", cap.toString(), "-q");
          nodes.get(0).run("workspace", "set", workspace, "--plan", plan, "-q");
        });
    // A retry is no part of the test: an attempt whose process is killed is none.
    nodes
        .get(0)
        .apply(
            "ship", Map.of("handler", "ship", "retry", Map.of("attempts", 50, "backoff", "1ms")));
    for (int i = 0; i < PROCESSES; i++) {
      processes.add(null);
      names.add(null);
      startProcess(i);
    }
  }

  @AfterEach
  void end() {
    processes.forEach(Process::destroyForcibly);
    nodes.forEach(WeirNode::close);
    postgres.close();
  }

  private static String jdbcUrl(URI url) {
    return "jdbc:postgresql://" + url.getAuthority().split("@")[1] + url.getPath();
  }

  private void startProcess(int place) {
    URI url = URI.create(database);
    String name = "shop" + ++started;
    List<String> command =
        List.of(
            ProcessHandle.current().info().command().orElseThrow(),
            "-Xmx96m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            System.getProperty("java.class.path"),
            ShopProcess.class.getName(),
            "--shop.process=" + name,
            "--shop.workspaces=" + String.join(",", CAPS.keySet()),
            "--shop.seed=" + (seed + name.hashCode()),
            "--weir.url=" + nodes.stream().map(WeirNode::url).collect(Collectors.joining(",")),
            "--weir.worker.slots=6",
            "--spring.main.banner-mode=off",
            "--spring.datasource.hikari.maximum-pool-size=4",
            "--spring.datasource.url=" + jdbcUrl(url),
            "--spring.datasource.username=" + url.getUserInfo());
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile()))
              .start();
      processes.set(place, process);
      names.set(place, name);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Path log() {
    return folder.resolve("processes.log");
  }

  private long count(String sql) {
    return jdbc.queryForObject(sql, Long.class);
  }

  /** Beginnings and ends of runs so far. */
  private long records() {
    return count("SELECT count(*) + count(ended) FROM runs");
  }

  private String state() {
    try {
      WeirNode node = nodes.get(0);
      String logged = Files.readString(log());
      return jdbc.queryForList("SELECT * FROM runs WHERE ended IS NULL")
          + node.run("list", "--status", "claimed,dispatched", "--limit", "30")
          + node.run("worker", "list")
          + node.run("node", "list")
          + kills
          + logged.substring(Math.max(0, logged.length() - 4000));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * The places of applications with a run under way. A node may leave the workers of another idle.
   */
  private List<Integer> busyPlaces() {
    List<String> busy =
        jdbc.queryForList("SELECT process FROM runs WHERE ended IS NULL", String.class);
    return IntStream.range(0, PROCESSES).filter(i -> busy.contains(names.get(i))).boxed().toList();
  }

  /** Kills an application in the middle of a run. */
  private void killProcess(Random random) throws InterruptedException {
    List<Integer> busy = new ArrayList<>();
    Programs.await(() -> "a run: " + state(), () -> busy.addAll(busyPlaces()));
    int place = busy.get(random.nextInt(busy.size()));
    kills.put(names.get(place), System.nanoTime());
    processes.get(place).destroyForcibly().waitFor();
    startProcess(place);
  }

  @Test
  @Timeout(value = 1, unit = TimeUnit.DAYS) // LIMIT in its place
  void committedOrdersAreShippedOnceWhileNodesAndApplicationsAreKilled() {
    assertTimeoutPreemptively(LIMIT, this::killAndCheck);
  }

  private void killAndCheck() throws Exception {
    System.out.println("WEIR_TEST_SEED=" + seed);
    Random random = new Random(seed);
    for (int kill = 0; kill < KILLS; kill++) {
      long wanted = records() + random.nextInt(RECORDS_PER_KILL);
      Programs.await(() -> "records: " + state(), () -> records() >= wanted);
      if (kill % 2 == 0) {
        killProcess(random);
      } else {
        WeirNode node = nodes.get(random.nextInt(nodes.size()));
        node.kill();
        node.serve();
      }
      if ((kill + 1) % KILLS_PER_REPORT == 0) {
        System.out.println(
            kill + 1 + " kills, " + count("SELECT count(*) FROM orders") + " orders");
      }
    }
    jdbc.update("UPDATE shop SET is_open = false"); // waits for the orders that are being placed
    awaitEnd();
    check();
  }

  /** Waits for all executions. The limit is for the next end. */
  private void awaitEnd() {
    String open = "SELECT count(*) FROM weir.executions WHERE status <> 'COMPLETED'";
    for (long left = count(open); left > 0; left = count(open)) {
      long before = left;
      Programs.await(() -> "one more end: " + state(), () -> count(open) < before);
    }
  }

  private static RunHistory.Run readRun(ResultSet row, int number) throws SQLException {
    return new RunHistory.Run(
        row.getString("process"),
        row.getString("name"),
        row.getString("execution"),
        row.getString("workspace"),
        row.getInt("attempt"),
        row.getLong("began"),
        row.getObject("ended", Long.class),
        row.getString("outcome"));
  }

  private void check() {
    List<RunHistory.Order> orders =
        jdbc.query(
            "SELECT * FROM orders",
            (row, number) ->
                new RunHistory.Order(
                    row.getString("name"), row.getString("workspace"), row.getString("execution")));
    List<RunHistory.Run> runs = jdbc.query("SELECT * FROM runs", WeirSpringFaultsTest::readRun);
    RunHistory history = new RunHistory(orders, runs, kills, CAPS, LEASE.toNanos());
    long refused = count("SELECT count(*) FROM refused");
    System.out.printf(
        "%d kills of nodes, %d of applications: %d orders, %d rolled back, %d runs,"
            + " %d of them cut, %d repeated after a lost report%n",
        KILLS - kills.size(),
        kills.size(),
        orders.size(),
        refused,
        runs.size(),
        history.cut(),
        history.repeats());
    assertEquals(List.of(), history.problems());
    assertTrue(refused > 0 && orders.size() >= KILLS, refused + " of " + orders.size());
    assertEquals(
        0, count("SELECT count(*) FROM refused JOIN orders USING (name)"), "committed or not");
    assertEquals(orders.size(), count("SELECT count(*) FROM weir.executions"));
  }
}
