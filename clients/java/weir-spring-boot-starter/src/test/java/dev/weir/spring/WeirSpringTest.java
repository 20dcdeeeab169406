package dev.weir.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.weir.client.EnqueueRequest;
import dev.weir.client.Execution;
import dev.weir.client.ExecutionStatus;
import dev.weir.client.Task;
import dev.weir.client.WeirClient;
import dev.weir.client.WeirException;
import dev.weir.client.WeirHandler;
import dev.weir.testing.Postgres;
import dev.weir.testing.Programs;
import dev.weir.testing.WeirNode;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.annotation.Transactional;

/** An application of Spring Boot beside a real node, with one database of PostgreSQL for both. */
class WeirSpringTest {
  private static Postgres postgres;
  private static String database;
  private static WeirNode node;
  private ConfigurableApplicationContext application;

  @BeforeAll
  static void startNode() {
    postgres = new Postgres();
    database = postgres.database();
    node = WeirNode.startOn(database, "one");
    node.apply("ship", Map.of("handler", "ship", "retry", Map.of("attempts", 3, "backoff", "1ms")));
    node.apply("hold", Map.of("handler", "hold"));
  }

  @AfterAll
  static void endNode() {
    node.close();
    postgres.close();
  }

  @BeforeEach
  void startApplication() {
    application = start(Shop.class);
  }

  @AfterEach
  void endApplication() {
    application.close();
  }

  private static ConfigurableApplicationContext start(Class<?> shop, String... more) {
    URI url = URI.create(database);
    List<String> words = new ArrayList<>();
    if (!List.of(more).contains("--weir.url=")) {
      words.add("--weir.url=http://127.0.0.1:1," + node.url());
    }
    words.add("--weir.worker.slots=4");
    words.add("--spring.main.banner-mode=off");
    words.add("--spring.datasource.hikari.maximum-pool-size=4");
    words.add(
        "--spring.datasource.url=jdbc:postgresql://"
            + url.getAuthority().split("@")[1]
            + url.getPath());
    words.add("--spring.datasource.username=" + url.getUserInfo());
    words.addAll(List.of(more));
    return SpringApplication.run(shop, words.toArray(String[]::new));
  }

  /** The application. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  @Import({Orders.class, Shipping.class})
  static class Shop {
    @Bean
    Object tables(JdbcTemplate jdbc) {
      jdbc.execute("CREATE TABLE IF NOT EXISTS orders (name text PRIMARY KEY)");
      jdbc.execute(
          "CREATE TABLE IF NOT EXISTS shipped (key text PRIMARY KEY, attempt integer, at text)");
      return "made";
    }
  }

  record Parcel(String name, Instant at, boolean fails) {}

  static class Orders {
    private final JdbcTemplate jdbc;
    private final TransactionalEnqueue enqueue;

    Orders(JdbcTemplate jdbc, TransactionalEnqueue enqueue) {
      this.jdbc = jdbc;
      this.enqueue = enqueue;
    }

    @Transactional
    public String place(String name, boolean fails) {
      jdbc.update("INSERT INTO orders VALUES (?)", name);
      return ship(name, fails);
    }

    @Transactional
    public void placeAndFail(String name) {
      place(name, false);
      throw new IllegalStateException("the order is refused");
    }

    @Transactional
    public String placeAfterARefusal(String name) {
      WeirException refusal =
          assertThrows(
              WeirException.class, () -> enqueue.enqueue(EnqueueRequest.of("acme", "shop")));
      assertEquals("workflow_not_found", refusal.code());
      assertTrue(refusal.hint().isPresent());
      assertFalse(refusal.isRetryable());
      return place(name, false);
    }

    private String ship(String name, boolean fails) {
      Parcel parcel = new Parcel(name, Instant.parse("2030-01-02T03:04:05Z"), fails);
      EnqueueRequest request =
          EnqueueRequest.of("acme", "ship", parcel)
              .withIdempotencyKey(name)
              .withPriority(2)
              .withRunAt(Instant.parse("2020-01-01T00:00:00Z"));
      String id = enqueue.enqueue(request).id();
      assertTrue(enqueue.enqueue(request).duplicate());
      return id;
    }
  }

  static class Shipping {
    private final BlockingQueue<Task> held = new LinkedBlockingQueue<>();
    private final CountDownLatch goOn = new CountDownLatch(1);
    private final JdbcTemplate jdbc;

    Shipping(JdbcTemplate jdbc) {
      this.jdbc = jdbc;
    }

    /** The bean is a proxy, and a failure rolls the writes of the handler back. */
    @WeirHandler("ship")
    @Transactional
    public Map<String, Object> ship(Parcel parcel, Task task) {
      jdbc.update(
          "INSERT INTO shipped VALUES (?, ?, ?)",
          task.idempotencyKey(),
          task.attempt(),
          parcel.at().toString());
      if (parcel.fails() && task.attempt() < 3) {
        throw new IllegalStateException("no van");
      }
      return Map.of("parcel", parcel.name());
    }

    @WeirHandler("hold")
    public void hold(Task task) throws InterruptedException {
      held.add(task);
      goOn.await();
    }

    public Task held() throws InterruptedException {
      return held.poll(Programs.MOST.toSeconds(), TimeUnit.SECONDS);
    }

    public void goOn() {
      goOn.countDown();
    }
  }

  /** Why the application does not start. */
  private static String refusal(Class<?> shop, String... more) {
    Throwable cause = assertThrows(Exception.class, () -> start(shop, more));
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause.getMessage();
  }

  private Execution await(String id) {
    return application.getBean(WeirClient.class).waitFor(id, Programs.MOST);
  }

  private long count(String sql, Object... values) {
    return application.getBean(JdbcTemplate.class).queryForObject(sql, Long.class, values);
  }

  @Test
  void aCommitStartsTheWork() {
    String id = application.getBean(Orders.class).place("book", false);
    Execution execution = await(id);
    assertEquals(ExecutionStatus.COMPLETED, execution.status(), execution.error());
    assertEquals("{\"parcel\":\"book\"}", execution.steps().get(0).path("output").toString());
    assertEquals(1, count("SELECT count(*) FROM orders WHERE name = 'book'"));
    assertEquals(
        1,
        count(
            "SELECT count(*) FROM shipped WHERE at = '2030-01-02T03:04:05Z' AND key = ?",
            id + "/only"));
  }

  @Test
  void aRollbackLeavesNothing() {
    Orders orders = application.getBean(Orders.class);
    assertThrows(IllegalStateException.class, () -> orders.placeAndFail("lamp"));
    assertEquals(0, count("SELECT count(*) FROM orders WHERE name = 'lamp'"));
    assertEquals(0, count("SELECT count(*) FROM weir.executions WHERE idempotency_key = 'lamp'"));
  }

  @Test
  void anEnqueueOutsideOfATransactionIsCommitted() {
    for (String autoCommit : List.of("true", "false")) {
      try (ConfigurableApplicationContext other =
          start(Empty.class, "--spring.datasource.hikari.auto-commit=" + autoCommit)) {
        String id =
            other
                .getBean(TransactionalEnqueue.class)
                .enqueue(
                    EnqueueRequest.of("acme", "ship", new Parcel("kite", Instant.EPOCH, false)))
                .id();
        assertEquals(
            1,
            count("SELECT count(*) FROM weir.executions WHERE id = CAST(? AS uuid)", id),
            "auto-commit " + autoCommit);
      }
    }
  }

  @Test
  void aRollbackWithoutAutoCommitLeavesNothing() {
    try (ConfigurableApplicationContext other =
        start(Shop.class, "--spring.datasource.hikari.auto-commit=false")) {
      Orders orders = other.getBean(Orders.class);
      assertThrows(IllegalStateException.class, () -> orders.placeAndFail("sofa"));
      assertEquals(0, count("SELECT count(*) FROM weir.executions WHERE idempotency_key = 'sofa'"));
    }
  }

  @Test
  void theTokenIsNotShown() {
    WeirProperties properties =
        new WeirProperties(List.of("https://host"), "geheim", Duration.ZERO, null, null, null);
    assertFalse(properties.toString().contains("geheim"), properties.toString());
  }

  @Test
  void aRefusalLeavesTheTransactionUsable() {
    String id = application.getBean(Orders.class).placeAfterARefusal("vase");
    assertEquals(ExecutionStatus.COMPLETED, await(id).status());
  }

  @Test
  void adviceOfTheHandlersBeanWorks() {
    Execution execution = await(application.getBean(Orders.class).place("chair", true));
    assertEquals(ExecutionStatus.COMPLETED, execution.status(), execution.error());
    assertEquals(3, execution.steps().get(0).path("attempt").asInt());
    // The writes of the failed attempts are gone.
    assertEquals(
        1,
        count(
            "SELECT count(*) FROM shipped WHERE attempt = 3 AND key = ?",
            execution.id() + "/only"));
  }

  @Test
  void aStopOfTheApplicationWaitsForHandlers() throws Exception {
    Shipping shipping = application.getBean(Shipping.class);
    WeirClient client = application.getBean(WeirClient.class);
    String id = client.enqueue(EnqueueRequest.of("acme", "hold")).id();
    assertTrue(shipping.held() != null);
    WeirWorker worker = application.getBean(WeirWorker.class);
    Thread stop = new Thread(application::close);
    stop.start();
    Programs.await("the stop", () -> !worker.isRunning());
    shipping.goOn();
    stop.join(Programs.MOST.toMillis());
    assertFalse(stop.isAlive());
    assertEquals(ExecutionStatus.COMPLETED, client.waitFor(id, Programs.MOST).status());
  }

  @Test
  void anApplicationWithoutHandlersOrWithoutAWorkerStarts() {
    try (ConfigurableApplicationContext other = start(Empty.class)) {
      assertTrue(other.getBean(WeirWorker.class).worker().isEmpty());
    }
    try (ConfigurableApplicationContext other = start(Shop.class, "--weir.worker.enabled=false")) {
      assertEquals(0, other.getBeansOfType(WeirWorker.class).size());
    }
  }

  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Empty {}

  @Test
  void handlersWithoutAnAddressAreNamedAtTheStart() {
    assertTrue(refusal(Shop.class, "--weir.url=").contains("set weir.url"));
  }

  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  @Import({Orders.class, Shipping.class, Rival.class})
  static class ShopWithRival {}

  static class Rival {
    @WeirHandler("ship")
    public void ship() {}
  }

  @Test
  void twoHandlersOfOneNameAreNamedAtTheStart() {
    assertTrue(refusal(ShopWithRival.class).contains("two methods have @WeirHandler(\"ship\")"));
  }
}
