package dev.weir.spring;

import dev.weir.client.EnqueueRequest;
import dev.weir.client.Task;
import dev.weir.client.WeirHandler;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.core.env.Environment;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.annotation.Transactional;

/**
 * An application that a test kills. It places orders in transactions, of which every third is
 * rolled back, and ships them in a handler. Tables of its own show which orders are committed, and
 * when each run began and ended: by the clock of the machine that does not jump, which is the same
 * for all processes. weir writes none of these tables.
 */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
@Import({ShopProcess.Orders.class, ShopProcess.Shipping.class})
class ShopProcess {
  static final List<String> TABLES =
      List.of(
          // An open transaction that places an order has the row, so none commits after the close.
          "CREATE TABLE shop (is_open boolean NOT NULL)",
          "INSERT INTO shop VALUES (true)",
          "CREATE TABLE orders (name text PRIMARY KEY, workspace text NOT NULL, execution text UNIQUE)",
          "CREATE TABLE refused (name text PRIMARY KEY)",
          "CREATE TABLE runs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
              + " process text NOT NULL, name text NOT NULL, execution text NOT NULL,"
              + " workspace text NOT NULL, attempt integer NOT NULL, began bigint NOT NULL,"
              + " ended bigint, outcome text)",
          "CREATE INDEX runs_execution ON runs (execution)");

  /** Orders that are committed and not shipped, of all processes. Further ones wait. */
  private static final int OPEN_MOST = 40;

  private static final int WORK_MS_MOST = 300;

  record Order(String name) {}

  static class Orders {
    private final JdbcTemplate jdbc;
    private final TransactionalEnqueue enqueue;

    Orders(JdbcTemplate jdbc, TransactionalEnqueue enqueue) {
      this.jdbc = jdbc;
      this.enqueue = enqueue;
    }

    /** Places an order. Returns false when the shop is closed. */
    @Transactional
    public boolean place(String name, String workspace, boolean fails) {
      if (!jdbc.queryForObject("SELECT is_open FROM shop FOR SHARE", Boolean.class)) {
        return false;
      }
      EnqueueRequest request =
          EnqueueRequest.of(workspace, "ship", new Order(name)).withIdempotencyKey(name);
      jdbc.update(
          "INSERT INTO orders VALUES (?, ?, ?)", name, workspace, enqueue.enqueue(request).id());
      if (fails) {
        throw new IllegalStateException("the order is refused");
      }
      return true;
    }

    long open() {
      return jdbc.queryForObject(
          "SELECT (SELECT count(*) FROM orders)"
              + " - (SELECT count(*) FROM runs WHERE outcome = 'done')",
          Long.class);
    }

    void noteRefusal(String name) {
      jdbc.update("INSERT INTO refused VALUES (?)", name);
    }
  }

  static class Shipping {
    private final JdbcTemplate jdbc;
    private final String process;

    Shipping(JdbcTemplate jdbc, Environment environment) {
      this.jdbc = jdbc;
      this.process = environment.getRequiredProperty("shop.process");
    }

    /**
     * The recorded times lie within the run. The report of a run that has ended may be lost with
     * its process. The next run then finds the end and does the work no second time.
     */
    @WeirHandler("ship")
    public void ship(Order order, Task task) throws InterruptedException {
      long run =
          jdbc.queryForObject(
              "INSERT INTO runs (process, name, execution, workspace, attempt, began)"
                  + " VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
              Long.class,
              process,
              order.name(),
              task.executionId(),
              task.workspace(),
              task.attempt(),
              System.nanoTime());
      try {
        boolean isDone =
            jdbc.queryForObject(
                "SELECT EXISTS (SELECT 1 FROM runs WHERE execution = ? AND outcome = 'done')",
                Boolean.class,
                task.executionId());
        if (!isDone) {
          Thread.sleep(ThreadLocalRandom.current().nextInt(WORK_MS_MOST)); // the work
        }
        end(run, isDone ? "repeat" : "done", System.nanoTime());
      } catch (InterruptedException | RuntimeException e) {
        long ended = System.nanoTime();
        Thread.interrupted(); // it would end the statement
        end(run, "stopped", ended);
        throw e;
      }
    }

    private void end(long run, String outcome, long ended) {
      jdbc.update("UPDATE runs SET outcome = ?, ended = ? WHERE id = ?", outcome, ended, run);
    }
  }

  private ShopProcess() {}

  /** Arguments: properties. {@code shop.process} is the name of the process. */
  public static void main(String[] words) throws InterruptedException {
    endWithTheTest();
    ConfigurableApplicationContext application = SpringApplication.run(ShopProcess.class, words);
    Environment environment = application.getEnvironment();
    String process = environment.getRequiredProperty("shop.process");
    List<String> workspaces =
        List.of(environment.getRequiredProperty("shop.workspaces").split(","));
    Random random = new Random(environment.getRequiredProperty("shop.seed", Long.class));
    placeOrders(application.getBean(Orders.class), process, workspaces, random);
    new CountDownLatch(1).await(); // the worker goes on
  }

  private static void placeOrders(
      Orders orders, String process, List<String> workspaces, Random random)
      throws InterruptedException {
    boolean isOpen = true;
    for (int number = 0; isOpen; number++) {
      while (orders.open() >= OPEN_MOST) {
        Thread.sleep(20);
      }
      String name = process + "-" + number;
      String workspace = workspaces.get(random.nextInt(workspaces.size()));
      try {
        isOpen = orders.place(name, workspace, number % 3 == 2);
      } catch (IllegalStateException e) {
        orders.noteRefusal(name);
      }
    }
  }

  /** The test has the other end of the standard input. */
  private static void endWithTheTest() {
    Thread thread =
        new Thread(
            () -> {
              try {
                while (System.in.read() >= 0) {}
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              } finally {
                Runtime.getRuntime().halt(1);
              }
            },
            "end-with-the-test");
    thread.setDaemon(true);
    thread.start();
  }
}
